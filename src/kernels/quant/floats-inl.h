// F32, F16 and BF16: weights that are single numbers. In a strip they lie as [k][16]; BF16, whose dots take
// pairs, as [k / 2][16][2], which is why its rows must be of even length.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct F32Weights {
  static constexpr std::string_view kName = "F32";
  static constexpr uint32_t kGgufType = 0;
  static constexpr int kBlockElements = 1;
  static constexpr bool kSingleNumbers = true;
  struct Block {
    float value;
  };
  static_assert(sizeof(Block) == 4);
  static constexpr PackedField kFields[] = {{4, 4}};

  static SOLI_INLINE void dequantize_block(const Block& block, float* out) { out[0] = block.value; }
  static SOLI_INLINE void quantize_block(const float* in, Block* block) { block->value = in[0]; }
  static SOLI_INLINE F32 load(const std::byte* strip, int64_t k) { return S::load(strip + k * 64); }
};

struct F16Weights {
  static constexpr std::string_view kName = "F16";
  static constexpr uint32_t kGgufType = 1;
  static constexpr int kBlockElements = 1;
  static constexpr bool kSingleNumbers = true;
  struct Block {
    half value;
  };
  static_assert(sizeof(Block) == 2);
  static constexpr PackedField kFields[] = {{2, 2}};

  static SOLI_INLINE void dequantize_block(const Block& block, float* out) {
    out[0] = float_of_half(block.value);
  }
  static SOLI_INLINE void quantize_block(const float* in, Block* block) {
    block->value = half_of_float(in[0]);
  }
  static SOLI_INLINE F32 load(const std::byte* strip, int64_t k) { return S::load_f16(strip + k * 32); }
};

struct Bf16Weights {
  static constexpr std::string_view kName = "BF16";
  static constexpr uint32_t kGgufType = 30;
  static constexpr int kBlockElements = 2;
  static constexpr bool kSingleNumbers = true;
  struct Block {
    uint16_t values[2];
  };
  static_assert(sizeof(Block) == 4);
  static constexpr PackedField kFields[] = {{4, 4}};

  static SOLI_INLINE void dequantize_block(const Block& block, float* out) {
    for (int i = 0; i < 2; ++i) out[i] = float_of_bf16(block.values[i]);
  }
  static SOLI_INLINE void quantize_block(const float* in, Block* block) {
    for (int i = 0; i < 2; ++i) block->values[i] = bf16_of_float(in[i]);
  }
  static SOLI_INLINE F32 load(const std::byte* strip, int64_t k) {
    const I32 pair = S::load_i(strip + k / 2 * 64);
    if (k % 2 == 0) return S::as_f32(S::shift_left(pair, 16));
    return S::as_f32(S::and_i(pair, S::set1_i(static_cast<int32_t>(0xffff0000U))));
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
