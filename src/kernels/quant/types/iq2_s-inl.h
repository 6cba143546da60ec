// IQ2_S: blocks of 256 elements in 16 parts of 16; a weight of part p is d / 8 * (2 scale_p + 1) * (+-value),
// exact in f32. Each eight elements g have an index of ten bits into a grid of 1024 entries, whose upper two
// are bits 2 (g % 4) of byte g / 4 of `high`, and a byte of signs. Scales have four bits.
//
// Packed block: 16 d, then q [8], signs [8], high [2] and scales [2], each [16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ2_S : Iq2Numbers {
  static constexpr std::string_view kName = "IQ2_S";
  static constexpr uint32_t kGgufType = 22;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d_;
    uint8_t q[32];
    uint8_t sign_bits[32];
    uint8_t high[8];
    uint8_t scales[8];

    half d() const { return d_; }
    int index(int g) const { return q[g] | (high[g / 4] >> g % 4 * 2 & 3) << 8; }
    int signs(int g) const { return sign_bits[g]; }
    int scale(int part) const { return scales[part / 2] >> part % 2 * 4 & 15; }

    void set_d(half d) { d_ = d; }
    void set_index(int g, int index) {
      q[g] = static_cast<uint8_t>(index);
      high[g / 4] |= static_cast<uint8_t>(index >> 8 << g % 4 * 2);
    }
    void set_signs(int g, int signs) { sign_bits[g] = static_cast<uint8_t>(signs); }
    void set_scales(const uint8_t* s) {
      for (int i = 0; i < 8; ++i) scales[i] = static_cast<uint8_t>(s[2 * i] | s[2 * i + 1] << 4);
    }
  };
  static_assert(sizeof(Block) == 82);
  static constexpr PackedField kFields[] = {{2, 2}, {80, 4}};
  static constexpr GridFormat kFormat = {&kIq2SGrid, kValues, GridSigns::kAny, 16, 16, kTypical};

  static void dequantize_block(const Block& block, float* out) { dequantize_grid<IQ2_S>(block, out); }
  static void quantize_block(const float* in, Block* block) { quantize_grid<IQ2_S>(in, block); }

  static constexpr int kParts = 16;
  struct Scales {
    I32 fours[2];
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : fours{S::load_i(packed + 32 + 64 * 18), S::load_i(packed + 32 + 64 * 19)},
          d(S::mul(S::load_f16(packed), S::set1(kUnit))) {}
    SOLI_INLINE I32 scale(int p) const { return odd_scale(bits_at(fours[p / 8], p % 8 * 4, 4)); }
  };
  static SOLI_INLINE Eight eight(const std::byte* packed, int g) {
    packed += 32;
    const I32 high = bits_at(S::load_i(packed + (16 + g / 16) * 64), g % 16 * 2, 2);
    const I32 index = S::or_i(byte_at(packed, g), S::shift_left(high, 8));
    const I32 signs = S::shift_right(S::load_i(packed + (8 + g / 4) * 64), g % 4 * 8);
    return grid_of_8(kIq2STable.entries, kBytes, index, spread_signs(signs));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
