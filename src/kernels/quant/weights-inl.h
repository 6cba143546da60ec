// Makes the table of weight types from their descriptions.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

template <typename Type>
inline void dequantize_row(const std::byte* row, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; k += Type::kBlockElements) {
    typename Type::Block block;
    __builtin_memcpy(&block, row, sizeof block);
    Type::dequantize_block(block, out + k);
    row += sizeof block;
  }
}

template <typename Type>
inline void quantize_row(const float* in, int64_t cols, std::byte* row) {
  for (int64_t k = 0; k < cols; k += Type::kBlockElements) {
    typename Type::Block block;
    Type::quantize_block(in + k, &block);
    __builtin_memcpy(row, &block, sizeof block);
    row += sizeof block;
  }
}

template <typename Type>
inline constexpr PackedLayout kLayout = {Type::kFields, sizeof(Type::kFields) / sizeof(PackedField),
                                         sizeof(typename Type::Block)};

template <typename Type>
inline void pack(const std::byte* rows, int64_t cols, std::byte* strip) {
  if constexpr (requires { Type::kSingleNumbers; }) {
    // A row of single numbers is packed like one wide field, without the cost per block.
    const PackedField row{cols / Type::kBlockElements * Type::kFields[0].bytes, Type::kFields[0].grain};
    pack_strip({&row, 1, row.bytes}, rows, 1, strip);
  } else {
    pack_strip(kLayout<Type>, rows, cols / Type::kBlockElements, strip);
  }
}

template <typename Type>
inline void dequantize_lane(const std::byte* strip, int lane, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; k += Type::kBlockElements) {
    typename Type::Block block;
    unpack_block(kLayout<Type>, strip, lane, reinterpret_cast<std::byte*>(&block));
    Type::dequantize_block(block, out + k);
    strip += sizeof block * kStripRows;
  }
}

template <typename Type>
constexpr WeightKernels weight_kernels() {
  WeightKernels kernels{.name = Type::kName,
                        .gguf_type = Type::kGgufType,
                        .block_elements = Type::kBlockElements,
                        .block_bytes = sizeof(typename Type::Block),
                        .partner = ActivationForm::kF32,
                        .dequantize_row = dequantize_row<Type>,
                        .quantize_row = quantize_row<Type>,
                        .pack_strip = pack<Type>,
                        .dequantize_lane = dequantize_lane<Type>,
                        .matmul_f32 = matmul<F32Product<Type>>,
                        .matmul_partner = matmul<F32Product<Type>>};
  if constexpr (Type::kBlockElements >= kQ8BlockElements) {
    kernels.partner =
        Type::kBlockElements == kPanelElements ? ActivationForm::kQ8Of256 : ActivationForm::kQ8Of32;
    kernels.matmul_partner = matmul<IntegerProduct<Type>>;
  }
  return kernels;
}

constexpr WeightKernels bf16_kernels() {
  WeightKernels kernels = weight_kernels<Bf16Weights>();
  kernels.partner = ActivationForm::kBf16;
  kernels.matmul_partner = matmul<Bf16Product>;
  return kernels;
}

// What the build finds in types/ (weight_types-inl.h): each file has to define the type of its name.
template <typename Type>
inline constexpr bool kIsDefined = requires {
  sizeof(Type);
};
#define SOLI_CHECK_WEIGHT_TYPE(Type, file) \
  struct Type;                             \
  static_assert(kIsDefined<Type>, "src/kernels/quant/types/" file " has to define struct " #Type);
SOLI_WEIGHT_TYPES(SOLI_CHECK_WEIGHT_TYPE)

/// In no particular order.
#define SOLI_WEIGHT_KERNELS(Type, file) weight_kernels<Type>(),
inline constexpr WeightKernels kWeights[] = {weight_kernels<F32Weights>(), weight_kernels<F16Weights>(),
                                             bf16_kernels(), SOLI_WEIGHT_TYPES(SOLI_WEIGHT_KERNELS)};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
