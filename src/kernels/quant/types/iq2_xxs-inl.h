// IQ2_XXS: blocks of 256 elements in 8 parts of 32, each of four indices into a grid of 256 entries; a weight
// of part p is d / 8 * (2 scale_p + 1) * (+-value), exact in f32. A part is 8 bytes: four indices, then 32
// bits with seven sign bits for each eight elements, the eighth sign making the number of minus signs even,
// and the scale on top.
//
// Packed block: 16 d, then the parts [8][2][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ2_XXS : Iq2Numbers {
  static constexpr std::string_view kName = "IQ2_XXS";
  static constexpr uint32_t kGgufType = 16;
  static constexpr int kBlockElements = 256;
  struct Part {
    uint8_t q[4];
    SignsAndScale rest;
  };
  struct Block {
    half d_;
    Part parts[8];

    half d() const { return d_; }
    int index(int g) const { return parts[g / 4].q[g % 4]; }
    int signs(int g) const { return parts[g / 4].rest.signs(g % 4); }
    int scale(int part) const { return parts[part].rest.scale(); }

    void set_d(half d) { d_ = d; }
    void set_index(int g, int index) { parts[g / 4].q[g % 4] = static_cast<uint8_t>(index); }
    void set_signs(int g, int signs) { parts[g / 4].rest.set_signs(g % 4, signs); }
    void set_scales(const uint8_t* s) {
      for (int part = 0; part < 8; ++part) parts[part].rest.set_scale(s[part]);
    }
  };
  static_assert(sizeof(Block) == 66);
  static constexpr PackedField kFields[] = {{2, 2}, {64, 4}};
  static constexpr GridFormat kFormat = {&kIq2XxsGrid, kValues, GridSigns::kEven, 32, 16, kTypical};

  static void dequantize_block(const Block& block, float* out) { dequantize_grid<IQ2_XXS>(block, out); }
  static void quantize_block(const float* in, Block* block) { quantize_grid<IQ2_XXS>(in, block); }

  static constexpr int kParts = 8;
  struct Scales {
    const std::byte* parts;
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : parts(packed + 32), d(S::mul(S::load_f16(packed), S::set1(kUnit))) {}
    SOLI_INLINE I32 scale(int p) const {
      return odd_scale(bits_at(S::load_i(parts + (2 * p + 1) * 64), 28, 4));
    }
  };
  static SOLI_INLINE Eight eight(const std::byte* packed, int g) {
    const std::byte* part = packed + 32 + g / 4 * 128;
    const I32 signs = S::shift_right(S::load_i(part + 64), g % 4 * 7);
    return grid_of_8(kIq2XxsTable.entries, kBytes, byte_at(part, g % 4), spread_even_signs(signs));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
