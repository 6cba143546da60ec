// IQ4_XS: blocks of 256 four-bit indices into IQ4_NL's table, in 8 parts of 32; a weight of part p is
// d * (scale_p - 32) * value, exact in f32. Scales have six bits: nibble p % 2 of byte p / 2, and above them
// the bit pair p of `scales_high`. Nibbles of a part lie as in Q4_0.
//
// Packed block: 16 d, 16 scales_high, then scales_low [16][4 bytes] and q [32][16][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct IQ4_XS : SignedNumbers {
  static constexpr std::string_view kName = "IQ4_XS";
  static constexpr uint32_t kGgufType = 23;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d;
    uint16_t scales_high;
    uint8_t scales_low[4];
    uint8_t q[128];

    int scale(int part) const {
      return (scales_low[part / 2] >> part % 2 * 4 & 15) | (scales_high >> part * 2 & 3) << 4;
    }
  };
  static_assert(sizeof(Block) == 136);
  static constexpr PackedField kFields[] = {{2, 2}, {2, 2}, {132, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 256; ++i) {
      const float scale = d * static_cast<float>(block.scale(i / 32) - 32);
      out[i] = scale * static_cast<float>(kIq4Values[nibble_at(block.q + i / 32 * 16, i % 32)]);
    }
  }

  static void quantize_block(const float* in, Block* block) {
    float fits[8];
    for (int part = 0; part < 8; ++part) fits[part] = fit_iq4(in + part * 32, 32);
    __builtin_memset(block, 0, sizeof *block);
    block->d = half_of_float(extreme_of(fits, 8) / -32);
    const float d = float_of_half(block->d);
    for (int part = 0; part < 8; ++part) {
      const int scale = d != 0 ? round_clamped(fits[part] / d, -32, 31) : 0;
      block->scales_low[part / 2] |= static_cast<uint8_t>(((scale + 32) & 15) << part % 2 * 4);
      block->scales_high |= static_cast<uint16_t>((scale + 32) >> 4 << part * 2);
      const float step = d * static_cast<float>(scale);
      for (int i = 0; i < 32; ++i) {
        const float x = step != 0 ? in[part * 32 + i] / step : 0.0F;
        set_nibble(block->q + part * 16, i, nearest_value(kIq4Values, x));
      }
    }
  }

  static constexpr int kParts = 8;
  struct Scales {
    I32 low, high;
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : low(S::load_i(packed + 64)), high(S::load_u16(packed + 32)), d(S::load_f16(packed)) {}
    SOLI_INLINE I32 scale(int p) const {
      const I32 six = S::or_i(bits_at(low, p * 4, 4), S::shift_left(bits_at(high, p * 2, 2), 4));
      return S::sub_i(six, S::set1_i(32));
    }
  };
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return dot_bytes(S::lookup(kIq4Values, nibbles(packed + 128 + i / 8 * 256, i % 8)));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
