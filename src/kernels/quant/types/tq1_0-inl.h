// TQ1_0: blocks of 256 ternary numbers t with one f16 scale d, five in a byte or, in the last four bytes,
// four; a weight is d * (t - 1), which f32 holds exactly. A byte is ceil(256 / 243 * n), n having its numbers
// as digits in base 3, the first one highest: times 3^k, modulo 256, it has digit k as the whole part of
// 3/256 of it. Elements 0..159 are digits e / 32 of bytes e % 32, 160..239 digits (e - 160) / 16 of the next
// 16 bytes, and the rest digits (e - 240) / 4 of the last four.
//
// Packed block: q [13][16][4 bytes], then 16 d.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct TQ1_0 : OffsetNumbers<1> {
  static constexpr std::string_view kName = "TQ1_0";
  static constexpr uint32_t kGgufType = 34;
  static constexpr int kBlockElements = 256;
  static constexpr bool kSlowBytes = true;
  struct Block {
    uint8_t q[52];
    half d;
  };
  static_assert(sizeof(Block) == 54);
  static constexpr PackedField kFields[] = {{52, 4}, {2, 2}};

  /// Where an element lies.
  struct Place {
    int byte;
    int digit;
  };
  static constexpr Place place_of(int e) {
    if (e < 160) return {e % 32, e / 32};
    if (e < 240) return {32 + (e - 160) % 16, (e - 160) / 16};
    return {48 + (e - 240) % 4, (e - 240) / 4};
  }
  static constexpr int kPowers[5] = {1, 3, 9, 27, 81};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 256; ++i) {
      const Place place = place_of(i);
      const int number = (block.q[place.byte] * kPowers[place.digit] & 255) * 3 >> 8;
      out[i] = d * static_cast<float>(number - 1);
    }
  }

  static void quantize_block(const float* in, Block* block) {
    const float d = __builtin_fabsf(extreme_of(in, 256));
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    int numbers[52] = {};
    for (int i = 0; i < 256; ++i) {
      const Place place = place_of(i);
      numbers[place.byte] += (round_clamped(in[i] * inverse, -1, 1) + 1) * kPowers[4 - place.digit];
    }
    for (int i = 0; i < 52; ++i) block->q[i] = static_cast<uint8_t>((numbers[i] * 256 + 242) / 243);
  }

  // The block has no scale but d; parts are of 32, the longest that activations have sums for.
  static constexpr int kParts = 8;
  struct Scales {
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed) : d(S::load_f16(packed + 52 * kStripRows)) {}
    SOLI_INLINE I32 scale(int) const { return S::set1_i(1); }
  };
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    const Place place = place_of(4 * i);
    const I32 q = S::load_i(packed + place.byte * kStripRows);
    // The even bytes and the odd ones, in 16 bits each.
    const I32 power = S::set1_i(kPowers[place.digit]);
    const I32 even = digits(S::mul_i(S::and_i(q, S::set1_i(0x00ff00ff)), power));
    const I32 odd = digits(S::mul_i(S::and_i(S::shift_right(q, 8), S::set1_i(0x00ff00ff)), power));
    return S::or_i(even, S::shift_left(odd, 8));
  }

 private:
  static SOLI_INLINE I32 digits(I32 products) {
    const I32 q = S::and_i(products, S::set1_i(0x00ff00ff));
    return S::and_i(S::shift_right(S::add_i(q, S::add_i(q, q)), 8), S::set1_i(0x00030003));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
