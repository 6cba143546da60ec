// Q4_0: blocks of 32 four-bit numbers q with one f16 scale d; a weight is d * (q - 8), which f32 holds
// exactly. Byte i of the block carries elements i (low nibble) and i + 16 (high nibble).
//
// Packed block: 16 scales, then [4][16 rows][4 bytes].
// Canonical integer arithmetic: as Q8_0's, with the exact dot of q - 8.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q4_0 {
  static constexpr std::string_view kName = "Q4_0";
  static constexpr uint32_t kGgufType = 2;
  static constexpr int kBlockElements = 32;
  struct Block {
    half d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);
  static constexpr PackedField kFields[] = {{2, 2}, {16, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 16; ++i) {
      out[i] = static_cast<float>((block.q[i] & 15) - 8) * d;
      out[i + 16] = static_cast<float>((block.q[i] >> 4) - 8) * d;
    }
  }

  /// The scale maps the element of largest magnitude to -8, so that the wider side of [-8, 7] is used.
  static void quantize_block(const float* in, Block* block) {
    float extreme = 0;
    for (int i = 0; i < 32; ++i)
      extreme = __builtin_fabsf(in[i]) > __builtin_fabsf(extreme) ? in[i] : extreme;
    const float d = extreme / -8;
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    for (int i = 0; i < 16; ++i) {
      block->q[i] = static_cast<uint8_t>(nibble(in[i] * inverse) | nibble(in[i + 16] * inverse) << 4);
    }
  }

  static void decode_block(const std::byte* packed, float* panel) {
    const F32 d = S::load_f16(packed);
    const I32 mask = S::set1_i(15);
    const I32 offset = S::set1_i(8);
    for (int dword = 0; dword < 4; ++dword) {
      const I32 bytes = S::load_i(packed + 32 + dword * 64);
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        const I32 q = S::sub_i(S::and_i(S::shift_right(bytes, 4 * i), mask), offset);
        const int k = dword * 4 + i / 2 + (i % 2) * 16;
        S::store(panel + k * kStripRows, S::mul(d, S::to_f32(q)));
      }
    }
  }

  /// One block of 16 rows, as the unsigned numbers.
  struct Part {
    I32 bytes[8];
    F32 d;

    SOLI_INLINE Part(const std::byte* packed, int) : d(S::load_f16(packed)) {
      const I32 mask = S::set1_i(0x0f0f0f0f);
      SOLI_UNROLL
      for (int i = 0; i < 4; ++i) {
        const I32 both = S::load_i(packed + 32 + i * 64);
        bytes[i] = S::and_i(both, mask);
        bytes[i + 4] = S::and_i(S::shift_right(both, 4), mask);
      }
    }
    SOLI_INLINE F32 apply(const I32* activations, const Q8Part& x, F32 sum) const {
      I32 dot = S::set1_i(-8 * x.sum);
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) dot = S::dot_i8(dot, bytes[i], activations[i]);
      return S::fma(S::to_f32(dot), S::mul(d, S::set1(x.scale)), sum);
    }
  };

 private:
  /// Rounds x + 8, halves up, into [0, 15].
  static int nibble(float x) {
    const float q = x + 8.5F;
    if (!(q > 0.0F)) return 0;
    return q < 15.0F ? static_cast<int>(q) : 15;
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
