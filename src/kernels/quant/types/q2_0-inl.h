// Q2_0: blocks of 64 two-bit numbers q with one f16 scale d; a weight is d * (q - 1), which f32 holds
// exactly. Bit pair i % 4 of byte i / 4 is that of element i.
//
// Packed block: 16 d, then [4][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q2_0 : OffsetNumbers<1> {
  static constexpr std::string_view kName = "Q2_0";
  static constexpr uint32_t kGgufType = 42;
  static constexpr int kBlockElements = 64;
  static constexpr bool kSlowBytes = true;
  struct Block {
    half d;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 18);
  static constexpr PackedField kFields[] = {{2, 2}, {16, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 64; ++i) out[i] = d * static_cast<float>((block.q[i / 4] >> i % 4 * 2 & 3) - 1);
  }

  /// The scale is the largest magnitude, so that 2 d is not used.
  static void quantize_block(const float* in, Block* block) {
    const float d = __builtin_fabsf(extreme_of(in, 64));
    const float inverse = d > 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    __builtin_memset(block->q, 0, sizeof block->q);
    for (int i = 0; i < 64; ++i) {
      const int q = round_clamped(in[i] * inverse, -1, 2) + 1;
      block->q[i / 4] |= static_cast<uint8_t>(q << i % 4 * 2);
    }
  }

  static SOLI_INLINE F32 scale(const std::byte* packed, int) { return S::load_f16(packed); }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    // Bit pair j moves to 8 j: of the four copies, shifted by 0, 6, 12 and 18, one puts it there.
    const I32 eight = bits_at(S::load_i(packed + 32 + i / 4 * 64), i % 4 * 8, 8);
    I32 spread = S::and_i(S::or_i(eight, S::shift_left(eight, 12)), S::set1_i(0x000f000f));
    spread = S::or_i(spread, S::shift_left(spread, 6));
    return S::and_i(spread, S::set1_i(0x03030303));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
