// Q6_K: blocks of 256 six-bit numbers q in 16 parts of 16; a weight of part p is d * scale_p * (q - 32),
// exact in f32. A half of 128 elements takes 64 bytes of `low` and 32 of `high`: its element i has the nibble
// i / 64 of low byte i % 64, and the bit pair i / 32 of high byte i % 32.
//
// Packed block: low [32][16][4 bytes], high [16][16][4 bytes], scales [4][16][4 bytes], then 16 d.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q6_K {
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

  struct Part : HalvesPart<32, false> {
    SOLI_INLINE Part(const std::byte* packed, int part) {
      const I32 four = S::load_i(packed + (192 + part / 2 * 4) * kStripRows);
      const F32 d = S::load_f16(packed + 208 * kStripRows);
      scales[0] = S::mul(d, S::to_f32(signed_byte(four, part % 2 * 2)));
      scales[1] = S::mul(d, S::to_f32(signed_byte(four, part % 2 * 2 + 1)));
      const int j = part % 4;  // within the half
      const std::byte* low = packed + (part / 4 * 64 + j % 2 * 32) * kStripRows;
      const std::byte* high = packed + (128 + part / 4 * 32) * kStripRows;
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        const I32 nibbles =
            S::and_i(S::shift_right(S::load_i(low + i * 64), j / 2 * 4), S::set1_i(0x0f0f0f0f));
        const I32 pairs = S::and_i(S::shift_right(S::load_i(high + i * 64), j * 2), S::set1_i(0x03030303));
        bytes[i] = S::or_i(nibbles, S::shift_left(pairs, 4));
      }
    }
  };
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
