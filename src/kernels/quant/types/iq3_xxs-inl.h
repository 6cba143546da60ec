// IQ3_XXS: blocks of 256 elements in 8 parts of 32; a weight of part p is d / 4 * (2 scale_p + 1) *
// (+-value), exact in f32. Each four elements have a byte, which is an index into a grid of 256 entries.
// After these, each part has 32 bits: seven sign bits for each eight elements, the eighth sign making the
// number of minus signs even, and the scale on top.
//
// Packed block: 16 d, then q [16][16][4 bytes] and signs [8][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ3_XXS : GridNumbers<64> {
  static constexpr std::string_view kName = "IQ3_XXS";
  static constexpr uint32_t kGgufType = 18;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d_;
    uint8_t q[64];
    SignsAndScale parts[8];

    half d() const { return d_; }
    int index(int i) const { return q[i]; }
    int signs(int g) const { return parts[g / 4].signs(g % 4); }
    int scale(int part) const { return parts[part].scale(); }

    void set_d(half d) { d_ = d; }
    void set_index(int i, int index) { q[i] = static_cast<uint8_t>(index); }
    void set_signs(int g, int signs) { parts[g / 4].set_signs(g % 4, signs); }
    void set_scales(const uint8_t* s) {
      for (int part = 0; part < 8; ++part) parts[part].set_scale(s[part]);
    }
  };
  static_assert(sizeof(Block) == 98);
  static constexpr PackedField kFields[] = {{2, 2}, {96, 4}};
  static constexpr int8_t kValues[8] = {4, 12, 20, 28, 36, 44, 52, 62};
  static constexpr GridBytes kBytes = signed_bytes(kValues, 64);
  static constexpr float kUnit = 0.25F;
  static float value(int number, int signs, int j) { return signed_value(kValues[number], signs, j); }
  static constexpr GridFormat kFormat = {&kIq3XxsGrid, kValues, GridSigns::kEven, 32, 16, 26};

  static void dequantize_block(const Block& block, float* out) { dequantize_grid<IQ3_XXS>(block, out); }
  static void quantize_block(const float* in, Block* block) { quantize_grid<IQ3_XXS>(in, block); }

  static constexpr int kParts = 8;
  struct Scales {
    const std::byte* parts;
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : parts(packed + 32 + 64 * 16), d(S::mul(S::load_f16(packed), S::set1(kUnit))) {}
    SOLI_INLINE I32 scale(int p) const { return odd_scale(bits_at(S::load_i(parts + p * 64), 28, 4)); }
  };
  static SOLI_INLINE Eight eight(const std::byte* packed, int g) {
    packed += 32;
    const I32 signs = S::shift_right(S::load_i(packed + (16 + g / 4) * 64), g % 4 * 7);
    return grids_of_4(kIq3XxsTable.entries, kBytes, byte_at(packed, 2 * g), byte_at(packed, 2 * g + 1),
                      spread_even_signs(signs));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
