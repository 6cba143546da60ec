// MXFP4 (OCP Microscaling Formats 1.0): blocks of 32 numbers of 1 sign, 2 exponent and 1 mantissa bit with
// one shared power of two. The table holds twice their values, so that all are integers, and a weight is 2^(e
// - 128) * value, which f32 holds exactly. Nibbles lie as in Q4_0.
//
// Packed block: 16 exponents (bytes), then [4][16 rows][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct MXFP4 : OffsetNumbers<12> {
  static constexpr std::string_view kName = "MXFP4";
  static constexpr uint32_t kGgufType = 39;
  static constexpr int kBlockElements = 32;
  struct Block {
    uint8_t exponent;
    uint8_t q[16];
  };
  static_assert(sizeof(Block) == 17);
  static constexpr PackedField kFields[] = {{1, 1}, {16, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = scale_of(block.exponent);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kE2m1Values[nibble_at(block.q, i)]);
  }

  /// The exponent puts the largest magnitude between 4 and 8, whose own power of two is 2.
  static void quantize_block(const float* in, Block* block) {
    const float max = __builtin_fabsf(extreme_of(in, 32));
    const int exponent = max > 0 ? static_cast<int>(bits_of(max) >> 23) - 2 : 0;
    block->exponent = static_cast<uint8_t>(exponent < 0 ? 0 : exponent);
    const float d = scale_of(block->exponent);
    for (int i = 0; i < 32; ++i) set_nibble(block->q, i, nearest_value(kE2m1Values, in[i] / d));
  }

  static SOLI_INLINE F32 scale(const std::byte* packed) {
    // Two factors, since 2^-128 and 2^-127 are below what one exponent field holds.
    const I32 exponent = S::sub_i(S::load_u8(packed), S::set1_i(128));
    const I32 first = S::shift_right(exponent, 1);
    return S::mul(power_of_two(first), power_of_two(S::sub_i(exponent, first)));
  }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return S::lookup(kE2m1OffsetValues, nibbles(packed + 16, i));
  }

 private:
  static float scale_of(uint8_t exponent) {
    return exponent < 2 ? float_of(0x00200000U << exponent) : float_of((exponent - 1U) << 23);
  }
  static SOLI_INLINE F32 power_of_two(I32 n) {
    return S::as_f32(S::shift_left(S::add_i(n, S::set1_i(127)), 23));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
