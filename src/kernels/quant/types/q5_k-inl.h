// Q5_K: Q4_K with a fifth bit; a weight of part p is (d * scale_p) * q - (d_minimum * minimum_p), q in [0,
// 31]. The low four bits lie as in Q4_K; bit p of byte i of `high` is the fifth bit of element i of part p.
//
// Packed block: 16 d, 16 d_minimum, then the scales [3][16][4 bytes], high [8][16][4 bytes] and q [32][16][4
// bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q5_K : AffineNumbers {
  static constexpr std::string_view kName = "Q5_K";
  static constexpr uint32_t kGgufType = 13;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d;
    half d_minimum;
    KScales scales;
    uint8_t high[32];
    uint8_t q[128];
  };
  static_assert(sizeof(Block) == 176);
  static constexpr PackedField kFields[] = {{2, 2}, {2, 2}, {172, 4}};

  static void dequantize_block(const Block& block, float* out) {
    for (int i = 0; i < 256; ++i) {
      const int part = i / 32;
      const float scale = float_of_half(block.d) * static_cast<float>(block.scales.scale(part));
      const float minimum = float_of_half(block.d_minimum) * static_cast<float>(block.scales.minimum(part));
      const int low = block.q[part / 2 * 32 + i % 32] >> part % 2 * 4 & 15;
      const int q = low | (block.high[i % 32] >> part & 1) << 4;
      out[i] = scale * static_cast<float>(q) - minimum;
    }
  }

  static void quantize_block(const float* in, Block* block) {
    AffineBlock affine;
    quantize_affine_block(in, 32, 31, 63, &affine);
    block->d = affine.d;
    block->d_minimum = affine.d_minimum;
    block->scales = {};
    for (int part = 0; part < 8; ++part) block->scales.set(part, affine.scales[part], affine.minima[part]);
    const uint8_t* q = affine.q;
    for (int i = 0; i < 128; ++i) {
      const int low = i / 32 * 64 + i % 32;
      block->q[i] = static_cast<uint8_t>((q[low] & 15) | (q[low + 32] & 15) << 4);
    }
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int part = 0; part < 8; ++part) high |= (q[part * 32 + i] >> 4) << part;
      block->high[i] = static_cast<uint8_t>(high);
    }
  }

  static constexpr int kParts = 8;
  using Scales = KScaleVectors;
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    const I32 both = S::load_i(packed + 768 + i / 16 * 512 + i % 8 * 64);
    const I32 low = S::and_i(S::shift_right(both, i / 8 % 2 * 4), S::set1_i(0x0f0f0f0f));
    const I32 high = S::load_i(packed + 256 + i % 8 * 64);
    const I32 fifth = S::and_i(S::shift_right(high, i / 8), S::set1_i(0x01010101));
    return S::or_i(low, S::shift_left(fifth, 4));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
