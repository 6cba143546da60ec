// Q4_K: blocks of 256 four-bit numbers q in 8 parts of 32; a weight of part p is (d * scale_p) * q -
// (d_minimum * minimum_p). Both products are exact in f32; the subtraction rounds once. 32 bytes carry two
// parts: part 2c in the low nibbles, part 2c + 1 in the high ones.
//
// Packed block: 16 d, 16 d_minimum, then the scales [3][16][4 bytes] and q [32][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q4_K : AffineNumbers {
  static constexpr std::string_view kName = "Q4_K";
  static constexpr uint32_t kGgufType = 12;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d;
    half d_minimum;
    KScales scales;
    uint8_t q[128];
  };
  static_assert(sizeof(Block) == 144);
  static constexpr PackedField kFields[] = {{2, 2}, {2, 2}, {140, 4}};

  static void dequantize_block(const Block& block, float* out) {
    for (int i = 0; i < 256; ++i) {
      const int part = i / 32;
      const float scale = float_of_half(block.d) * static_cast<float>(block.scales.scale(part));
      const float minimum = float_of_half(block.d_minimum) * static_cast<float>(block.scales.minimum(part));
      const int q = block.q[part / 2 * 32 + i % 32] >> part % 2 * 4 & 15;
      out[i] = scale * static_cast<float>(q) - minimum;
    }
  }

  static void quantize_block(const float* in, Block* block) {
    AffineBlock affine;
    quantize_affine_block(in, 32, 15, 63, &affine);
    block->d = affine.d;
    block->d_minimum = affine.d_minimum;
    block->scales = {};
    for (int part = 0; part < 8; ++part) block->scales.set(part, affine.scales[part], affine.minima[part]);
    const uint8_t* q = affine.q;
    for (int i = 0; i < 128; ++i) {
      const int low = i / 32 * 64 + i % 32;
      block->q[i] = static_cast<uint8_t>(q[low] | q[low + 32] << 4);
    }
  }

  static constexpr int kParts = 8;
  using Scales = KScaleVectors;
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    const I32 both = S::load_i(packed + 256 + i / 16 * 512 + i % 8 * 64);
    return S::and_i(S::shift_right(both, i / 8 % 2 * 4), S::set1_i(0x0f0f0f0f));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
