// Q5_1: blocks of 32 five-bit numbers q with an f16 scale d and an f16 minimum m; a weight is d * q + m,
// rounded once. Bits lie as in Q5_0.
//
// Packed block: 16 d, 16 m, then high [16][4 bytes] and q [4][16 rows][4 bytes]. The minimum of AffineNumbers
// is -m.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q5_1 : AffineNumbers {
  static constexpr std::string_view kName = "Q5_1";
  static constexpr uint32_t kGgufType = 7;
  static constexpr int kBlockElements = 32;
  struct Block {
    half d;
    half m;
    uint8_t high[4];  // little-endian 32 bits: bit i is the fifth bit of element i
    uint8_t q[16];

    int number(int i) const { return nibble_at(q, i) | (high[i / 8] >> i % 8 & 1) << 4; }
    void set_number(int i, int number) {
      set_nibble(q, i, number & 15);
      high[i / 8] = static_cast<uint8_t>((i % 8 == 0 ? 0 : high[i / 8]) | number >> 4 << i % 8);
    }
  };
  static_assert(sizeof(Block) == 24);
  static constexpr PackedField kFields[] = {{2, 2}, {2, 2}, {20, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    const float m = float_of_half(block.m);
    for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(block.number(i)) * d + m;
  }

  static void quantize_block(const float* in, Block* block) {
    const Range range = range_of(in, 32);
    const float d = (range.max - range.min) / 31;
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    block->m = half_of_float(range.min);
    for (int i = 0; i < 32; ++i) {
      block->set_number(i, truncate_clamped((in[i] - range.min) * inverse + 0.5F, 31));
    }
  }

  static SOLI_INLINE F32 scale(const std::byte* packed) { return S::load_f16(packed); }
  static SOLI_INLINE F32 minimum(const std::byte* packed) {
    return S::mul(S::set1(-1.0F), S::load_f16(packed + 32));
  }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return S::or_i(nibbles(packed + 128, i), fifth_bits(S::load_i(packed + 64), i));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
