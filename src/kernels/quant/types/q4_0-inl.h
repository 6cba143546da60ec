// Q4_0: blocks of 32 four-bit numbers q with one f16 scale d; a weight is d * (q - 8), which f32 holds
// exactly. Byte i of the block carries elements i (low nibble) and i + 16 (high nibble).
//
// Packed block: 16 scales, then [4][16 rows][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q4_0 : OffsetNumbers<8> {
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
    for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(nibble_at(block.q, i) - 8) * d;
  }

  /// The scale maps the element of largest magnitude to -8, so that the wider side of [-8, 7] is used.
  static void quantize_block(const float* in, Block* block) {
    const float d = extreme_of(in, 32) / -8;
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    for (int i = 0; i < 32; ++i) set_nibble(block->q, i, truncate_clamped(in[i] * inverse + 8.5F, 15));
  }

  static SOLI_INLINE F32 scale(const std::byte* packed) { return S::load_f16(packed); }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) { return nibbles(packed + 32, i); }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
