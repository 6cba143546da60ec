// IQ1_M: blocks of 256 elements in 16 parts of 16; a weight of part p is d * (2 scale_p + 1) * (value +
// shift), with values -1, 0 and 1 and a shift of 1/8 or -1/8 for each eight elements, exact in f32. Each
// eight have an index of eleven bits into a grid of 2048 entries: a byte of q and, in a nibble of `high`,
// three bits and the bit of the shift. The 16 bits of `scales` have three bits of scale for each of four
// parts and, on top, four bits of d.
//
// Packed block: q [8], high [4] and scales [2], each [16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ1_M : Iq1Numbers {
  static constexpr std::string_view kName = "IQ1_M";
  static constexpr uint32_t kGgufType = 29;
  static constexpr int kBlockElements = 256;
  struct Block {
    uint8_t q[32];
    uint8_t high[16];
    uint16_t scales[4];

    half d() const {
      int bits = 0;
      for (int i = 0; i < 4; ++i) bits |= scales[i] >> 12 << 4 * i;
      return static_cast<half>(bits);
    }
    int index(int g) const { return q[g] | (high[g / 2] >> g % 2 * 4 & 7) << 8; }
    int signs(int g) const { return high[g / 2] >> (g % 2 * 4 + 3) & 1; }
    int scale(int part) const { return scales[part / 4] >> part % 4 * 3 & 7; }

    void set_d(half d) {
      for (int i = 0; i < 4; ++i) scales[i] |= static_cast<uint16_t>((d >> 4 * i & 15) << 12);
    }
    void set_index(int g, int index) {
      q[g] = static_cast<uint8_t>(index);
      high[g / 2] |= static_cast<uint8_t>(index >> 8 << g % 2 * 4);
    }
    void set_signs(int g, int bit) { high[g / 2] |= static_cast<uint8_t>(bit << (g % 2 * 4 + 3)); }
    void set_scales(const uint8_t* s) {
      for (int i = 0; i < 4; ++i, s += 4)
        scales[i] |= static_cast<uint16_t>(s[0] | s[1] << 3 | s[2] << 6 | s[3] << 9);
    }
  };
  static_assert(sizeof(Block) == 56);
  static constexpr PackedField kFields[] = {{56, 4}};
  static constexpr GridFormat kFormat = {&kIq1Grid, kValues, GridSigns::kShiftOfEight, 16, 8, kTypical};

  static void dequantize_block(const Block& block, float* out) { dequantize_grid<IQ1_M>(block, out); }
  static void quantize_block(const float* in, Block* block) { quantize_grid<IQ1_M>(in, block); }

  static constexpr int kParts = 16;
  struct Scales {
    I32 pairs[2];
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : pairs{S::load_i(packed + 64 * 12), S::load_i(packed + 64 * 13)},
          d(S::mul(S::f32_of_f16(d_bits()), S::set1(kUnit))) {}
    SOLI_INLINE I32 scale(int p) const {
      return odd_scale(bits_at(pairs[p / 8], p / 4 % 2 * 16 + p % 4 * 3, 3));
    }

   private:
    SOLI_INLINE I32 d_bits() const {
      const I32 low = S::or_i(bits_at(pairs[0], 12, 4), S::shift_left(bits_at(pairs[0], 28, 4), 4));
      const I32 high = S::or_i(bits_at(pairs[1], 12, 4), S::shift_left(bits_at(pairs[1], 28, 4), 4));
      return S::or_i(low, S::shift_left(high, 8));
    }
  };
  static SOLI_INLINE Eight eight(const std::byte* packed, int g) {
    const I32 four = bits_at(S::load_i(packed + (8 + g / 8) * 64), g % 8 * 4, 4);
    const I32 upper = S::shift_left(S::and_i(four, S::set1_i(7)), 8);
    return grid_of_8(kIq1Table.entries, kBytes, S::or_i(byte_at(packed, g), upper),
                     spread(S::shift_right(four, 3)));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
