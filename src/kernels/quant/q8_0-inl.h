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

  /// One block of 16 rows.
  struct Part {
    I32 bytes[8];  // + kDotOffset
    F32 d;

    SOLI_INLINE Part(const std::byte* packed, int) : d(S::load_f16(packed)) {
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) bytes[i] = signed_weights(packed + 32 + i * 64);
    }
    SOLI_INLINE F32 apply(const I32* activations, const Q8Part& x, F32 sum) const {
      I32 dot = S::set1_i(-S::kDotOffset * x.sum);
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) dot = S::dot_i8(dot, bytes[i], activations[i]);
      return S::fma(S::to_f32(dot), S::mul(d, S::set1(x.scale)), sum);
    }
  };
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
