// Q3_K: blocks of 256 three-bit numbers q in 16 parts of 16; a weight of part p is d * (scale_p - 32) * (q -
// 4), exact in f32. Low bits lie as in Q2_K; bit i / 32 of byte i % 32 of `high` is the third bit of element
// i. Scales have six bits: nibble p / 8 of byte p % 8, and above them the bit pair p / 4 of byte 8 + p % 4.
//
// Packed block: high [8][16][4 bytes], q [16][16][4 bytes], scales [3][16][4 bytes], then 16 d.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q3_K : OffsetNumbers<4> {
  static constexpr std::string_view kName = "Q3_K";
  static constexpr uint32_t kGgufType = 11;
  static constexpr int kBlockElements = 256;
  struct Block {
    uint8_t high[32];
    uint8_t q[64];
    uint8_t scales[12];
    half d;

    int scale(int part) const {
      return (scales[part % 8] >> part / 8 * 4 & 15) | (scales[8 + part % 4] >> part / 4 * 2 & 3) << 4;
    }
  };
  static_assert(sizeof(Block) == 110);
  static constexpr PackedField kFields[] = {{108, 4}, {2, 2}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 256; ++i) {
      const int low = bit_pair_at(block.q, i);
      const int high = block.high[i % 32] >> i / 32 & 1;
      out[i] = d * static_cast<float>(block.scale(i / 16) - 32) * static_cast<float>((low | high << 2) - 4);
    }
  }

  static void quantize_block(const float* in, Block* block) {
    SymmetricBlock symmetric;
    quantize_symmetric_block(in, 4, 32, &symmetric);
    __builtin_memset(block, 0, sizeof *block);
    block->d = symmetric.d;
    for (int part = 0; part < 16; ++part) {
      const int scale = symmetric.scales[part] + 32;
      block->scales[part % 8] |= static_cast<uint8_t>((scale & 15) << part / 8 * 4);
      block->scales[8 + part % 4] |= static_cast<uint8_t>(scale >> 4 << part / 4 * 2);
    }
    for (int i = 0; i < 256; ++i) {
      set_bit_pair(block->q, i, symmetric.q[i] & 3);
      block->high[i % 32] |= static_cast<uint8_t>(symmetric.q[i] >> 2 << i / 32);
    }
  }

  static constexpr int kParts = 16;
  struct Scales {
    I32 low[2], high;
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed)
        : low{S::load_i(packed + 96 * kStripRows), S::load_i(packed + 100 * kStripRows)},
          high(S::load_i(packed + 104 * kStripRows)),
          d(S::load_f16(packed + 108 * kStripRows)) {}
    SOLI_INLINE I32 scale(int p) const {
      const I32 four = bits_at(low[p % 8 / 4], p % 4 * 8 + p / 8 * 4, 4);
      const I32 two = bits_at(high, p % 4 * 8 + p / 4 * 2, 2);
      return S::sub_i(S::or_i(four, S::shift_left(two, 4)), S::set1_i(32));
    }
  };
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    const I32 low = bit_pairs(packed + 32 * kStripRows, i);
    const I32 high = S::and_i(S::shift_right(S::load_i(packed + i % 8 * 64), i / 8), S::set1_i(0x01010101));
    return S::or_i(low, S::shift_left(high, 2));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
