// Q6_K: blocks of 256 six-bit numbers q in 16 parts of 16; a weight of part p is d * scale_p * (q - 32),
// exact in f32. A half of 128 elements takes 64 bytes of `low` and 32 of `high`: its element i has the nibble
// i / 64 of low byte i % 64, and the bit pair i / 32 of high byte i % 32.
//
// Packed block: low [32][16][4 bytes], high [16][16][4 bytes], scales [4][16][4 bytes], then 16 d.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q6_K : OffsetNumbers<32> {
  static constexpr std::string_view kName = "Q6_K";
  static constexpr uint32_t kGgufType = 14;
  static constexpr int kBlockElements = 256;
  struct Block {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    half d;
  };
  static_assert(sizeof(Block) == 210);
  static constexpr PackedField kFields[] = {{208, 4}, {2, 2}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 256; ++i) {
      const int half_block = i / 128;
      const int j = i % 128;
      const int low = block.low[half_block * 64 + j % 64] >> j / 64 * 4 & 15;
      const int high = block.high[half_block * 32 + j % 32] >> j / 32 * 2 & 3;
      out[i] = d * static_cast<float>(block.scales[i / 16]) * static_cast<float>((low | high << 4) - 32);
    }
  }

  static void quantize_block(const float* in, Block* block) {
    SymmetricBlock symmetric;
    quantize_symmetric_block(in, 32, 128, &symmetric);
    block->d = symmetric.d;
    __builtin_memset(block->low, 0, sizeof block->low);
    __builtin_memset(block->high, 0, sizeof block->high);
    for (int part = 0; part < 16; ++part) block->scales[part] = static_cast<int8_t>(symmetric.scales[part]);
    for (int i = 0; i < 256; ++i) {
      const int q = symmetric.q[i];
      const int j = i % 128;
      block->low[i / 128 * 64 + j % 64] |= static_cast<uint8_t>((q & 15) << j / 64 * 4);
      block->high[i / 128 * 32 + j % 32] |= static_cast<uint8_t>(q >> 4 << j / 32 * 2);
    }
  }

  static constexpr int kParts = 16;
  struct Scales {
    I32 fours[4];
    F32 d;

    explicit SOLI_INLINE Scales(const std::byte* packed) : d(S::load_f16(packed + 208 * kStripRows)) {
      SOLI_UNROLL
      for (int i = 0; i < 4; ++i) fours[i] = S::load_i(packed + (192 + i * 4) * kStripRows);
    }
    SOLI_INLINE I32 scale(int p) const { return signed_byte(fours[p / 4], p % 4); }
  };
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    const std::byte* low = packed + i / 32 * 1024 + i % 16 * 64;
    const std::byte* high = packed + 2048 + i / 32 * 512 + i % 8 * 64;
    const I32 nibble = S::and_i(S::shift_right(S::load_i(low), i % 32 / 16 * 4), S::set1_i(0x0f0f0f0f));
    const I32 pair = S::and_i(S::shift_right(S::load_i(high), i % 32 / 8 * 2), S::set1_i(0x03030303));
    return S::or_i(nibble, S::shift_left(pair, 4));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
