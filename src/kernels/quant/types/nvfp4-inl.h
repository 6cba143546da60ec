// NVFP4: blocks of 64 numbers of MXFP4's kind (1 sign, 2 exponent and 1 mantissa bit) in four parts of 16,
// each with a scale of 4 exponent and 3 mantissa bits (E4M3, without its sign). The table holds twice the
// numbers, so that all are integers, and a weight of part p is scale_p / 2 * value, exact in f32. Nibbles of
// a part lie as in Q4_0: byte i carries its elements i (low nibble) and i + 8.
//
// Packed block: scales [16][4 bytes], then q [8][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// Half of what the bits of a scale stand for, exactly. 127 is no number and counts as 0, as in ggml; the
/// sign bit is not looked at.
struct HalfE4m3 {
  float values[256];
};
constexpr HalfE4m3 half_e4m3() {
  HalfE4m3 table{};
  for (int i = 0; i < 256; ++i) {
    const int exponent = i >> 3 & 15;
    float value = static_cast<float>(exponent == 0 ? i & 7 : (i & 7) + 8) * 0x1p-10F;
    for (int e = 1; e < exponent; ++e) value *= 2;
    table.values[i] = i == 127 ? 0 : value;
  }
  return table;
}
inline constexpr HalfE4m3 kHalfE4m3 = half_e4m3();

struct NVFP4 : OffsetNumbers<12> {
  static constexpr std::string_view kName = "NVFP4";
  static constexpr uint32_t kGgufType = 40;
  static constexpr int kBlockElements = 64;
  static constexpr bool kSlowBytes = true;
  static constexpr int kPartElements = 16;
  struct Block {
    uint8_t scales[4];
    uint8_t q[32];
  };
  static_assert(sizeof(Block) == 36);
  static constexpr PackedField kFields[] = {{36, 4}};

  static void dequantize_block(const Block& block, float* out) {
    for (int i = 0; i < 64; ++i) {
      const int both = block.q[i / 16 * 8 + i % 8];
      const int value = kE2m1Values[i % 16 < 8 ? both & 15 : both >> 4];
      out[i] = kHalfE4m3.values[block.scales[i / 16]] * static_cast<float>(value);
    }
  }

  /// A part's scale maps its largest magnitude to 6, the largest number.
  static void quantize_block(const float* in, Block* block) {
    for (int part = 0; part < 4; ++part, in += 16) {
      block->scales[part] = e4m3_of(__builtin_fabsf(extreme_of(in, 16)) / 6);
      const float d = kHalfE4m3.values[block->scales[part]];
      for (int i = 0; i < 8; ++i) {
        const int low = nearest_value(kE2m1Values, in[i] / d);
        const int high = nearest_value(kE2m1Values, in[i + 8] / d);
        block->q[part * 8 + i] = static_cast<uint8_t>(low | high << 4);
      }
    }
  }

  static SOLI_INLINE F32 scale(const std::byte* packed, int part) {
    return S::as_f32(S::gather(kHalfE4m3.values, bits_at(S::load_i(packed), part * 8, 8)));
  }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    const I32 both = S::load_i(packed + 64 + (i / 4 * 2 + i % 2) * 64);
    const I32 indices = S::and_i(S::shift_right(both, i / 2 % 2 * 4), S::set1_i(0x0f0f0f0f));
    return S::lookup(kE2m1OffsetValues, indices);
  }

 private:
  /// ggml's rounding: halves up, and what has the largest exponent becomes 448, the largest number.
  static uint8_t e4m3_of(float x) {
    if (!(x > 0)) return 0;
    if (x < 0x1p-6F) return static_cast<uint8_t>(truncate_clamped(x * 512 + 0.5F, 7));
    const int bits = static_cast<int>(((bits_of(x) >> 19) + 1) >> 1) - (120 << 3);
    return static_cast<uint8_t>(bits < 15 << 3 ? bits : 126);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
