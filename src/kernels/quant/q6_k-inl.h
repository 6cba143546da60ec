// Q6_K: blocks of 256 six-bit numbers q in 16 parts of 16; a weight of part p is d * scale_p * (q - 32),
// exact in f32. A half of 128 elements takes 64 bytes of `low` and 32 of `high`: its element i has the nibble
// i / 64 of low byte i % 64, and the bit pair i / 32 of high byte i % 32.
//
// Canonical integer arithmetic, for every 32 in ascending order, a and b being its parts of 16:
//   sum = fma(float(exact dot of q_a - 32), (d * scale_a) * d_activation, sum), then the same with b.
//
// Packed block: low [32][16][4 bytes], high [16][16][4 bytes], scales [4][16][4 bytes], then 16 d.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q6_K {
  static constexpr std::string_view kName = "Q6_K";
  static constexpr uint32_t kGgufType = 14;
  static constexpr int kBlockElements = 256;
  struct Block {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    half d;
  };
  static_assert(sizeof(Block) == 210);
  static constexpr PackedField kFields[] = {{208, 4}, {2, 2}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 256; ++i) {
      const int half_block = i / 128;
      const int j = i % 128;
      const int low = block.low[half_block * 64 + j % 64] >> j / 64 * 4 & 15;
      const int high = block.high[half_block * 32 + j % 32] >> j / 32 * 2 & 3;
      out[i] = d * static_cast<float>(block.scales[i / 16]) * static_cast<float>((low | high << 4) - 32);
    }
  }

  static void quantize_block(const float* in, Block* block) {
    float scales[16];
    float extreme = 0;
    for (int part = 0; part < 16; ++part) {
      scales[part] = fit_symmetric(in + part * 16, 16, 32);
      if (__builtin_fabsf(scales[part]) > __builtin_fabsf(extreme)) extreme = scales[part];
    }
    block->d = half_of_float(extreme / -128);
    const float d = float_of_half(block->d);
    __builtin_memset(block->low, 0, sizeof block->low);
    __builtin_memset(block->high, 0, sizeof block->high);
    for (int i = 0; i < 256; ++i) {
      const int scale = d != 0 ? round_clamped(scales[i / 16] / d, -128, 127) : 0;
      block->scales[i / 16] = static_cast<int8_t>(scale);
      const float step = d * static_cast<float>(scale);
      const int q = (step != 0 ? round_clamped(in[i] / step, -32, 31) : 0) + 32;
      const int j = i % 128;
      block->low[i / 128 * 64 + j % 64] |= static_cast<uint8_t>((q & 15) << j / 64 * 4);
      block->high[i / 128 * 32 + j % 32] |= static_cast<uint8_t>(q >> 4 << j / 32 * 2);
    }
  }

  static void decode_block(const std::byte* packed, float* panel) {
    const F32 d = S::load_f16(packed + 208 * kStripRows);
    const I32 offset = S::set1_i(32);
    for (int part = 0; part < 16; ++part) {
      const I32 four = S::load_i(packed + (192 + part / 4 * 4) * kStripRows);
      const F32 scale = S::mul(d, S::to_f32(signed_byte(four, part % 4)));
      for (int dword = 0; dword < 4; ++dword) {
        const int j = part % 8 * 16 + dword * 4;  // within the half
        const I32 low = S::load_i(packed + (part / 8 * 64 + j % 64) * kStripRows);
        const I32 high = S::load_i(packed + (128 + part / 8 * 32 + j % 32) * kStripRows);
        SOLI_UNROLL
        for (int i = 0; i < 4; ++i) {
          const I32 nibble = bits_at(low, 8 * i + j / 64 * 4, 4);
          const I32 pair = bits_at(high, 8 * i + j / 32 * 2, 2);
          const I32 q = S::sub_i(S::or_i(nibble, S::shift_left(pair, 4)), offset);
          S::store(panel + (part * 16 + dword * 4 + i) * kStripRows, S::mul(scale, S::to_f32(q)));
        }
      }
    }
  }

  /// Two parts of 16 for 16 rows, as the unsigned numbers.
  struct Part {
    I32 bytes[8];
    F32 scale_a, scale_b;

    SOLI_INLINE Part(const std::byte* packed, int part) {
      const I32 four = S::load_i(packed + (192 + part / 2 * 4) * kStripRows);
      const F32 d = S::load_f16(packed + 208 * kStripRows);
      scale_a = S::mul(d, S::to_f32(signed_byte(four, part % 2 * 2)));
      scale_b = S::mul(d, S::to_f32(signed_byte(four, part % 2 * 2 + 1)));
      const int j = part % 4;  // within the half
      const std::byte* low = packed + (part / 4 * 64 + j % 2 * 32) * kStripRows;
      const std::byte* high = packed + (128 + part / 4 * 32) * kStripRows;
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        const I32 nibbles =
            S::and_i(S::shift_right(S::load_i(low + i * 64), j / 2 * 4), S::set1_i(0x0f0f0f0f));
        const I32 pairs = S::and_i(S::shift_right(S::load_i(high + i * 64), j * 2), S::set1_i(0x03030303));
        bytes[i] = S::or_i(nibbles, S::shift_left(pairs, 4));
      }
    }
    SOLI_INLINE F32 apply(const I32* activations, const Q8Part& x, F32 sum) const {
      // The sum of the first 16 activations is a dot with ones; the second is what remains of the 32.
      I32 sum_a = S::set1_i(0);
      I32 dot_a = S::set1_i(0);
      I32 dot_b = S::set1_i(0);
      SOLI_UNROLL
      for (int i = 0; i < 4; ++i) {
        sum_a = S::dot_i8(sum_a, S::set1_i(0x01010101), activations[i]);
        dot_a = S::dot_i8(dot_a, bytes[i], activations[i]);
        dot_b = S::dot_i8(dot_b, bytes[i + 4], activations[i + 4]);
      }
      const I32 sum_b = S::sub_i(S::set1_i(x.sum), sum_a);
      const F32 scale = S::set1(x.scale);
      sum = S::fma(S::to_f32(S::sub_i(dot_a, S::shift_left(sum_a, 5))), S::mul(scale_a, scale), sum);
      return S::fma(S::to_f32(S::sub_i(dot_b, S::shift_left(sum_b, 5))), S::mul(scale_b, scale), sum);
    }
  };

 private:
  static SOLI_INLINE I32 signed_byte(I32 four, int i) {
    return S::shift_right(S::shift_left(four, 24 - 8 * i), 24);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
