// Q2_K: blocks of 256 two-bit numbers q in 16 parts of 16; a weight of part p is (d * scale_p) * q -
// (d_minimum * minimum_p), four bits each for scale and minimum. Both products are exact in f32; the
// subtraction rounds once. A half of 128 elements takes 32 bytes of q: its element i has the bit pair i / 32
// of byte i % 32.
//
// Packed block: scales [4][16][4 bytes], q [16][16][4 bytes], then 16 d and 16 d_minimum.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q2_K : AffineNumbers {
  static constexpr std::string_view kName = "Q2_K";
  static constexpr uint32_t kGgufType = 10;
  static constexpr int kBlockElements = 256;
  struct Block {
    uint8_t scales[16];  // scale in the low nibble, minimum in the high one
    uint8_t q[64];
    half d;
    half d_minimum;
  };
  static_assert(sizeof(Block) == 84);
  static constexpr PackedField kFields[] = {{80, 4}, {2, 2}, {2, 2}};

  static void dequantize_block(const Block& block, float* out) {
    for (int i = 0; i < 256; ++i) {
      const float scale = float_of_half(block.d) * static_cast<float>(block.scales[i / 16] & 15);
      const float minimum = float_of_half(block.d_minimum) * static_cast<float>(block.scales[i / 16] >> 4);
      out[i] = scale * static_cast<float>(bit_pair_at(block.q, i)) - minimum;
    }
  }

  static void quantize_block(const float* in, Block* block) {
    AffineBlock affine;
    quantize_affine_block(in, 16, 3, 15, &affine);
    block->d = affine.d;
    block->d_minimum = affine.d_minimum;
    for (int part = 0; part < 16; ++part) {
      block->scales[part] = static_cast<uint8_t>(affine.scales[part] | affine.minima[part] << 4);
    }
    __builtin_memset(block->q, 0, sizeof block->q);
    for (int i = 0; i < 256; ++i) set_bit_pair(block->q, i, affine.q[i]);
  }

  static constexpr int kParts = 16;
  struct Scales {
    I32 fours[4];
    F32 d, d_minimum;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : d(S::load_f16(packed + 80 * kStripRows)), d_minimum(S::load_f16(packed + 82 * kStripRows)) {
      SOLI_UNROLL
      for (int i = 0; i < 4; ++i) fours[i] = S::load_i(packed + i * 64);
    }
    SOLI_INLINE I32 scale(int p) const { return bits_at(fours[p / 4], p % 4 * 8, 4); }
    SOLI_INLINE I32 minimum(int p) const { return bits_at(fours[p / 4], p % 4 * 8 + 4, 4); }
  };
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return bit_pairs(packed + 16 * kStripRows, i);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
