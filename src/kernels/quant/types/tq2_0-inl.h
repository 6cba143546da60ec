// TQ2_0: blocks of 256 two-bit numbers q with one f16 scale d, for ternary weights; a weight is d * (q - 1),
// which f32 holds exactly. The quantiser writes -1, 0 and 1; a file may hold 2 as well. Numbers lie as in
// Q2_K: a half of 128 elements takes 32 bytes, and its element i has the bit pair i / 32 of byte i % 32.
//
// Packed block: q [16][16][4 bytes], then 16 d.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct TQ2_0 : OffsetNumbers<1> {
  static constexpr std::string_view kName = "TQ2_0";
  static constexpr uint32_t kGgufType = 35;
  static constexpr int kBlockElements = 256;
  struct Block {
    uint8_t q[64];
    half d;
  };
  static_assert(sizeof(Block) == 66);
  static constexpr PackedField kFields[] = {{64, 4}, {2, 2}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 256; ++i) out[i] = d * static_cast<float>(bit_pair_at(block.q, i) - 1);
  }

  static void quantize_block(const float* in, Block* block) {
    const float d = __builtin_fabsf(extreme_of(in, 256));
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    __builtin_memset(block->q, 0, sizeof block->q);
    block->d = half_of_float(d);
    for (int i = 0; i < 256; ++i) set_bit_pair(block->q, i, round_clamped(in[i] * inverse, -1, 1) + 1);
  }

  // The block has no scale but d; parts are of 32, the longest that activations have sums for.
  static constexpr int kParts = 8;
  struct Scales {
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed) : d(S::load_f16(packed + 64 * kStripRows)) {}
    SOLI_INLINE I32 scale(int) const { return S::set1_i(1); }
  };
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) { return bit_pairs(packed, i); }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
