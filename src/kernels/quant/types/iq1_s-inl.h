// IQ1_S: blocks of 256 elements in 8 parts of 32; a weight of part p is d * (2 scale_p + 1) * (value +
// shift_p), with values -1, 0 and 1 and a shift of 1/8 or -1/8, exact in f32. Each eight elements have an
// index of eleven bits into a grid of 2048 entries, whose lower eight are a byte of q. A part has 16 bits of
// `high`: the upper three bits of four indices, three bits of scale, and the bit of the shift.
//
// Packed block: 16 d, then q [8][16][4 bytes] and high [4][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ1_S : Iq1Numbers {
  static constexpr std::string_view kName = "IQ1_S";
  static constexpr uint32_t kGgufType = 19;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d_;
    uint8_t q[32];
    uint16_t high[8];

    half d() const { return d_; }
    int index(int g) const { return q[g] | (high[g / 4] >> g % 4 * 3 & 7) << 8; }
    int signs(int g) const { return high[g / 4] >> 15; }
    int scale(int part) const { return high[part] >> 12 & 7; }

    void set_d(half d) { d_ = d; }
    void set_index(int g, int index) {
      q[g] = static_cast<uint8_t>(index);
      high[g / 4] |= static_cast<uint16_t>(index >> 8 << g % 4 * 3);
    }
    void set_signs(int g, int bit) { high[g / 4] |= static_cast<uint16_t>(bit << 15); }
    void set_scales(const uint8_t* s) {
      for (int part = 0; part < 8; ++part) high[part] |= static_cast<uint16_t>(s[part] << 12);
    }
  };
  static_assert(sizeof(Block) == 50);
  static constexpr PackedField kFields[] = {{2, 2}, {48, 4}};
  static constexpr GridFormat kFormat = {&kIq1Grid, kValues, GridSigns::kShiftOfPart, 32, 8, kTypical};

  static void dequantize_block(const Block& block, float* out) { dequantize_grid<IQ1_S>(block, out); }
  static void quantize_block(const float* in, Block* block) { quantize_grid<IQ1_S>(in, block); }

  static constexpr int kParts = 8;
  struct Scales {
    const std::byte* high;
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : high(packed + 32 + 64 * 8), d(S::mul(S::load_f16(packed), S::set1(kUnit))) {}
    SOLI_INLINE I32 scale(int p) const {
      return odd_scale(bits_at(S::load_i(high + p / 2 * 64), p % 2 * 16 + 12, 3));
    }
  };
  static SOLI_INLINE Eight eight(const std::byte* packed, int g) {
    packed += 32;
    const I32 high = S::load_i(packed + (8 + g / 8) * 64);
    const int shift = g / 4 % 2 * 16;
    const I32 upper = bits_at(high, shift + g % 4 * 3, 3);
    return grid_of_8(kIq1Table.entries, kBytes, S::or_i(byte_at(packed, g), S::shift_left(upper, 8)),
                     spread(bits_at(high, shift + 15, 1)));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
