// Q8_0: blocks of 32 signed bytes q with one f16 scale d; a weight is d * q, which f32 holds exactly.
//
// Packed block: 16 scales, then [k / 4][16 rows][4 bytes].
// Canonical integer arithmetic, with activations quantised per 32 (Q8Row): for every block in ascending order
//   sum = fma(float(integer dot), d_weight * d_activation, sum)
// The integer dot is exact in 32 bits and in f32 (at most 32 * 128 * 127 < 2^24); the product of scales is
// rounded once.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q8_0 {
  static constexpr std::string_view kName = "Q8_0";
  static constexpr uint32_t kGgufType = 8;
  static constexpr int kBlockElements = 32;
  struct Block {
    half d;
    int8_t q[32];
  };
  static_assert(sizeof(Block) == 34);
  static constexpr PackedField kFields[] = {{2, 2}, {32, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.q[i]);
  }

  static void quantize_block(const float* in, Block* block) {
    float max = 0;
    for (int i = 0; i < 32; ++i) max = __builtin_fabsf(in[i]) > max ? __builtin_fabsf(in[i]) : max;
    const float d = max / 127.0F;
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    for (int i = 0; i < 32; ++i) block->q[i] = static_cast<int8_t>(round_clamped(in[i] * inverse, -127, 127));
  }

  static void decode_block(const std::byte* packed, float* panel) {
    const F32 d = S::load_f16(packed);
    for (int dword = 0; dword < 8; ++dword) {
      const I32 bytes = S::load_i(packed + 32 + dword * 64);
      SOLI_UNROLL
      for (int i = 0; i < 4; ++i) {
        const I32 q = S::shift_right(S::shift_left(bytes, 24 - 8 * i), 24);
        S::store(panel + (dword * 4 + i) * kStripRows, S::mul(d, S::to_f32(q)));
      }
    }
  }
};

/// T tokens over all blocks of one strip.
template <int T>
inline void q8_0_tile(const std::byte* strip, int64_t n_blocks, const Q8Row* x, float* const* y,
                      int64_t y_offset, int64_t n_rows) {
  F32 sums[T];
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) sums[t] = S::set1(0.0F);
  const I32 offset = S::set1_i(static_cast<int32_t>(S::kDotOffset * 0x01010101U));
  for (int64_t b = 0; b < n_blocks; ++b) {
    const std::byte* packed = strip + b * 544;
    I32 weights[8];
    SOLI_UNROLL
    for (int i = 0; i < 8; ++i) {
      weights[i] = S::load_i(packed + 32 + i * 64);
      if constexpr (S::kDotOffset != 0) weights[i] = S::xor_i(weights[i], offset);  // + 128, modulo 256
    }
    const F32 d = S::load_f16(packed);
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      const int8_t* values = x[t].values + b * kQ8BlockElements;
      I32 dot = S::set1_i(-S::kDotOffset * x[t].sums[b]);
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        int32_t dword;
        __builtin_memcpy(&dword, values + i * 4, sizeof dword);
        dot = S::dot_i8(dot, weights[i], S::set1_i(dword));
      }
      sums[t] = S::fma(S::to_f32(dot), S::mul(d, S::set1(x[t].scales[b])), sums[t]);
    }
  }
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) store_up_to(y[t] + y_offset, sums[t], n_rows);
}

inline void q8_0_matmul_q8(const MatmulTileQ8& tile) {
  const int64_t n_blocks = tile.cols / Q8_0::kBlockElements;
  const std::byte* strip = tile.strips;
  for (int64_t row = 0; row < tile.n_rows; row += kStripRows, strip += n_blocks * 544) {
    int64_t t = 0;
    for (; t + S::kTokenTileQ8 <= tile.n_tokens; t += S::kTokenTileQ8) {
      q8_0_tile<S::kTokenTileQ8>(strip, n_blocks, tile.x + t, tile.y + t, row, tile.n_rows - row);
    }
    for (; t < tile.n_tokens; ++t) {
      q8_0_tile<1>(strip, n_blocks, tile.x + t, tile.y + t, row, tile.n_rows - row);
    }
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
