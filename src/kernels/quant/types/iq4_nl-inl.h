// IQ4_NL: blocks of 32 four-bit indices into a table of signed bytes, with one f16 scale d; a weight is d *
// value, which f32 holds exactly. Nibbles lie as in Q4_0.
//
// Packed block: 16 scales, then [4][16 rows][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ4_NL : SignedNumbers {
  static constexpr std::string_view kName = "IQ4_NL";
  static constexpr uint32_t kGgufType = 20;
  static constexpr int kBlockElements = 32;
  struct Block {
    half d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);
  static constexpr PackedField kFields[] = {{2, 2}, {16, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4Values[nibble_at(block.q, i)]);
  }

  static void quantize_block(const float* in, Block* block) {
    block->d = half_of_float(fit_iq4(in, 32));
    const float d = float_of_half(block->d);
    for (int i = 0; i < 32; ++i)
      set_nibble(block->q, i, nearest_value(kIq4Values, d != 0 ? in[i] / d : 0.0F));
  }

  static SOLI_INLINE F32 scale(const std::byte* packed) { return S::load_f16(packed); }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return dot_bytes(S::lookup(kIq4Values, nibbles(packed + 32, i)));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
