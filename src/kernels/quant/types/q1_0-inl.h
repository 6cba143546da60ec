// Q1_0: blocks of 128 bits with one f16 scale d; a weight is d where its bit is set and -d where it is not.
// Bit i % 8 of byte i / 8 is that of element i.
//
// Packed block: 16 d, then [4][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q1_0 : OffsetNumbers<1> {
  static constexpr std::string_view kName = "Q1_0";
  static constexpr uint32_t kGgufType = 41;
  static constexpr int kBlockElements = 128;
  static constexpr bool kSlowBytes = true;
  struct Block {
    half d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);
  static constexpr PackedField kFields[] = {{2, 2}, {16, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 128; ++i) out[i] = (block.q[i / 8] >> i % 8 & 1) != 0 ? d : -d;
  }

  /// The scale is the mean magnitude.
  static void quantize_block(const float* in, Block* block) {
    float sum = 0;
    for (int i = 0; i < 128; ++i) sum += __builtin_fabsf(in[i]);
    block->d = half_of_float(sum / 128);
    __builtin_memset(block->q, 0, sizeof block->q);
    for (int i = 0; i < 128; ++i) block->q[i / 8] |= static_cast<uint8_t>((in[i] >= 0 ? 1 : 0) << i % 8);
  }

  static SOLI_INLINE F32 scale(const std::byte* packed, int) { return S::load_f16(packed); }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return S::shift_left(spread_bits(S::load_i(packed + 32 + i / 8 * 64), i % 8), 1);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
