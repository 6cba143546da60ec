// IQ3_S: blocks of 256 elements in 8 parts of 32; a weight of part p is d * (2 scale_p + 1) * (+-value),
// exact in f32. Each four elements i have an index of nine bits into a grid of 512 entries, whose upper one
// is bit i % 8 of byte i / 8 of `high`, and each eight a byte of signs. Scales have four bits.
//
// Packed block: 16 d, then q [16], high [2], signs [8] and scales [1], each [16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ3_S : GridNumbers<16> {
  static constexpr std::string_view kName = "IQ3_S";
  static constexpr uint32_t kGgufType = 21;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d_;
    uint8_t q[64];
    uint8_t high[8];
    uint8_t sign_bits[32];
    uint8_t scales[4];

    half d() const { return d_; }
    int index(int i) const { return q[i] | (high[i / 8] >> i % 8 & 1) << 8; }
    int signs(int g) const { return sign_bits[g]; }
    int scale(int part) const { return scales[part / 2] >> part % 2 * 4 & 15; }

    void set_d(half d) { d_ = d; }
    void set_index(int i, int index) {
      q[i] = static_cast<uint8_t>(index);
      high[i / 8] |= static_cast<uint8_t>(index >> 8 << i % 8);
    }
    void set_signs(int g, int signs) { sign_bits[g] = static_cast<uint8_t>(signs); }
    void set_scales(const uint8_t* s) {
      for (int i = 0; i < 4; ++i) scales[i] = static_cast<uint8_t>(s[2 * i] | s[2 * i + 1] << 4);
    }
  };
  static_assert(sizeof(Block) == 110);
  static constexpr PackedField kFields[] = {{2, 2}, {108, 4}};
  static constexpr int8_t kValues[8] = {1, 3, 5, 7, 9, 11, 13, 15};
  static constexpr GridBytes kBytes = signed_bytes(kValues, 16);
  static constexpr float kUnit = 1;
  static float value(int number, int signs, int j) { return signed_value(kValues[number], signs, j); }
  static constexpr GridFormat kFormat = {&kIq3SGrid, kValues, GridSigns::kAny, 32, 16, 6};

  static void dequantize_block(const Block& block, float* out) { dequantize_grid<IQ3_S>(block, out); }
  static void quantize_block(const float* in, Block* block) { quantize_grid<IQ3_S>(in, block); }

  static constexpr int kParts = 8;
  struct Scales {
    I32 eights;
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : eights(S::load_i(packed + 32 + 64 * 26)), d(S::load_f16(packed)) {}
    SOLI_INLINE I32 scale(int p) const { return odd_scale(bits_at(eights, p * 4, 4)); }
  };
  static SOLI_INLINE Eight eight(const std::byte* packed, int g) {
    packed += 32;
    const I32 high = S::load_i(packed + (16 + g / 16) * 64);
    const I32 signs = S::shift_right(S::load_i(packed + (18 + g / 4) * 64), g % 4 * 8);
    return grids_of_4(kIq3STable.entries, kBytes, index(packed, high, 2 * g), index(packed, high, 2 * g + 1),
                      spread_signs(signs));
  }

 private:
  static SOLI_INLINE I32 index(const std::byte* q, I32 high, int i) {
    return S::or_i(byte_at(q, i), S::shift_left(bits_at(high, i % 32, 1), 8));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
