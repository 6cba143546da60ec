// Q5_K: Q4_K with a fifth bit; a weight of part p is (d * scale_p) * q - (d_minimum * minimum_p), q in [0,
// 31]. The low four bits lie as in Q4_K; bit p of byte i of `high` is the fifth bit of element i of part p.
//
// Packed block: 16 d, 16 d_minimum, then the scales [3][16][4 bytes], high [8][16][4 bytes] and q [32][16][4
// bytes].
// Canonical integer arithmetic: AffinePart in k_quant-inl.h.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q5_K {
  static constexpr std::string_view kName = "Q5_K";
  static constexpr uint32_t kGgufType = 13;
  static constexpr int kBlockElements = 256;
  struct Block {
    half d;
    half d_minimum;
    KScales scales;
    uint8_t high[32];
    uint8_t q[128];
  };
  static_assert(sizeof(Block) == 176);
  static constexpr PackedField kFields[] = {{2, 2}, {2, 2}, {172, 4}};

  static void dequantize_block(const Block& block, float* out) {
    for (int i = 0; i < 256; ++i) {
      const int part = i / 32;
      const float scale = float_of_half(block.d) * static_cast<float>(block.scales.scale(part));
      const float minimum = float_of_half(block.d_minimum) * static_cast<float>(block.scales.minimum(part));
      const int low = block.q[part / 2 * 32 + i % 32] >> part % 2 * 4 & 15;
      const int q = low | (block.high[i % 32] >> part & 1) << 4;
      out[i] = scale * static_cast<float>(q) - minimum;
    }
  }

  static void quantize_block(const float* in, Block* block) {
    uint8_t q[256];
    quantize_affine_block(in, 31, &block->d, &block->d_minimum, &block->scales, q);
    for (int i = 0; i < 128; ++i) {
      const int low = i / 32 * 64 + i % 32;
      block->q[i] = static_cast<uint8_t>((q[low] & 15) | (q[low + 32] & 15) << 4);
    }
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int part = 0; part < 8; ++part) high |= (q[part * 32 + i] >> 4) << part;
      block->high[i] = static_cast<uint8_t>(high);
    }
  }

  static void decode_block(const std::byte* packed, float* panel) {
    const F32 d = S::load_f16(packed);
    const F32 d_minimum = S::load_f16(packed + 32);
    const KScaleVectors scales = KScaleVectors::load(packed + 64);
    for (int part = 0; part < 8; ++part) {
      const F32 scale = S::mul(d, S::to_f32(scales.scale(part)));
      const F32 minimum = S::mul(d_minimum, S::to_f32(scales.minimum(part)));
      for (int dword = 0; dword < 8; ++dword) {
        const I32 high = S::load_i(packed + 256 + dword * 64);
        const I32 bytes = S::load_i(packed + 768 + (part / 2 * 8 + dword) * 64);
        SOLI_UNROLL
        for (int i = 0; i < 4; ++i) {
          const I32 low = bits_at(bytes, 8 * i + part % 2 * 4, 4);
          const F32 q = S::to_f32(S::or_i(low, S::shift_left(bits_at(high, 8 * i + part, 1), 4)));
          S::store(panel + (part * 32 + dword * 4 + i) * kStripRows, S::sub(S::mul(scale, q), minimum));
        }
      }
    }
  }

  struct Part : AffinePart {
    SOLI_INLINE Part(const std::byte* packed, int part) : AffinePart(packed, part) {
      const I32 mask = S::set1_i(0x0f0f0f0f);
      const I32 bit = S::set1_i(0x01010101);
      const std::byte* both = packed + 768 + part / 2 * 512;
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        const I32 low = S::and_i(S::shift_right(S::load_i(both + i * 64), part % 2 * 4), mask);
        const I32 high = S::and_i(S::shift_right(S::load_i(packed + 256 + i * 64), part), bit);
        bytes[i] = S::or_i(low, S::shift_left(high, 4));
      }
    }
  };
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
