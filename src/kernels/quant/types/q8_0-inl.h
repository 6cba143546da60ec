// Q8_0: blocks of 32 signed bytes q with one f16 scale d; a weight is d * q, which f32 holds exactly.
//
// Packed block: 16 scales, then [k / 4][16 rows][4 bytes].

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Q8_0 : SignedNumbers {
  static constexpr std::string_view kName = "Q8_0";
  static constexpr uint32_t kGgufType = 8;
  static constexpr int kBlockElements = 32;
  struct Block {
    half d;
    int8_t q[32];
  };
  static_assert(sizeof(Block) == 34);
  static constexpr PackedField kFields[] = {{2, 2}, {32, 4}};

  static void dequantize_block(const Block& block, float* out) {
    const float d = float_of_half(block.d);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(block.q[i]);
  }

  static void quantize_block(const float* in, Block* block) {
    float max = 0;
    for (int i = 0; i < 32; ++i) max = __builtin_fabsf(in[i]) > max ? __builtin_fabsf(in[i]) : max;
    const float d = max / 127.0F;
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    block->d = half_of_float(d);
    for (int i = 0; i < 32; ++i) block->q[i] = static_cast<int8_t>(round_clamped(in[i] * inverse, -127, 127));
  }

  static SOLI_INLINE F32 scale(const std::byte* packed) { return S::load_f16(packed); }
  static SOLI_INLINE I32 bytes(const std::byte* packed, int i) {
    return dot_bytes(S::load_i(packed + 32 + i * 64));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
