// IQ2_XS: blocks of 256 elements in 16 parts of 16; a weight of part p is d / 8 * (2 scale_p + 1) *
// (+-value), exact in f32. Each eight elements have a 16-bit number: nine bits of index into a grid of 512
// entries, seven sign bits; the eighth sign makes the number of minus signs even. Scales have four bits.
//
// Packed block: 16 d, then q [16][16][4 bytes] and scales [2][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ2_XS : Iq2Numbers {
  static constexpr std::string_view kName = "IQ2_XS";
  static constexpr uint32_t kGgufType = 17;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d_;
    uint16_t q[32];
    uint8_t scales[8];

    half d() const { return d_; }
    int index(int g) const { return q[g] & 511; }
    int signs(int g) const { return even_signs(q[g] >> 9); }
    int scale(int part) const { return scales[part / 2] >> part % 2 * 4 & 15; }

    void set_d(half d) { d_ = d; }
    void set_index(int g, int index) { q[g] |= static_cast<uint16_t>(index); }
    void set_signs(int g, int signs) { q[g] |= static_cast<uint16_t>((signs & 127) << 9); }
    void set_scales(const uint8_t* s) {
      for (int i = 0; i < 8; ++i) scales[i] = static_cast<uint8_t>(s[2 * i] | s[2 * i + 1] << 4);
    }
  };
  static_assert(sizeof(Block) == 74);
  static constexpr PackedField kFields[] = {{2, 2}, {72, 4}};
  static constexpr GridFormat kFormat = {&kIq2XsGrid, kValues, GridSigns::kEven, 16, 16, kTypical};

  static void dequantize_block(const Block& block, float* out) { dequantize_grid<IQ2_XS>(block, out); }
  static void quantize_block(const float* in, Block* block) { quantize_grid<IQ2_XS>(in, block); }

  static constexpr int kParts = 16;
  struct Scales {
    I32 fours[2];
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : fours{S::load_i(packed + 32 + 64 * 16), S::load_i(packed + 32 + 64 * 17)},
          d(S::mul(S::load_f16(packed), S::set1(kUnit))) {}
    SOLI_INLINE I32 scale(int p) const { return odd_scale(bits_at(fours[p / 8], p % 8 * 4, 4)); }
  };
  static SOLI_INLINE Eight eight(const std::byte* packed, int g) {
    const I32 q = S::load_i(packed + 32 + g / 2 * 64);
    const I32 signs = S::shift_right(q, g % 2 * 16 + 9);
    return grid_of_8(kIq2XsTable.entries, kBytes, bits_at(q, g % 2 * 16, 9), spread_even_signs(signs));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
