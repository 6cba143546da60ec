// Q5_0: blocks of 32 five-bit numbers q with one f16 scale d; a weight is d * (q - 16), which f32 holds
// exactly. The low nibbles lie as in Q4_0.
//
// Packed block: 16 scales, then high [16][4 bytes] and q [4][16 rows][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q5_0 : OffsetNumbers<16> {
  static constexpr std::string_view kName = "Q5_0";
  static constexpr uint32_t kGgufType = 6;
  static constexpr int kBlockElements = 32;
  struct Block {
    half d;
    uint8_t high[4];  // little-endian 32 bits: bit i is the fifth bit of element i
    uint8_t q[16];

    int number(int i) const { return nibble_at(q, i) | (high[i / 8] >> i % 8 & 1) << 4; }
    void set_number(int i, int number) {
      set_nibble(q, i, number & 15);
      high[i / 8] = static_cast<uint8_t>((i % 8 == 0 ? 0 : high[i / 8]) | number >> 4 << i % 8);
    }
  };
  static_assert(sizeof(Block) == 22);
  static constexpr PackedField kFields[] = {{2, 2}, {20, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(block.number(i) - 16) * d;
  }

  /// The scale maps the element of largest magnitude to -16.
  static void quantize_block(const float* in, Block* block) {
    const float d = extreme_of(in, 32) / -16;
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    for (int i = 0; i < 32; ++i) block->set_number(i, truncate_clamped(in[i] * inverse + 16.5F, 31));
  }

  static SOLI_INLINE F32 scale(const std::byte* packed) { return S::load_f16(packed); }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return S::or_i(nibbles(packed + 96, i), fifth_bits(S::load_i(packed + 32), i));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
