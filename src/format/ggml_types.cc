#include "format/ggml_types.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace soli {
namespace {

constexpr std::array<GgmlType, 43> kTypes = {{
    {kGgmlF32, "F32", 1, 4},
    {kGgmlF16, "F16", 1, 2},
    {kGgmlQ4_0, "Q4_0", 32, 18},
    {kGgmlQ4_1, "Q4_1", 32, 20},
    {4, "Q4_2", 0, 0},
    {5, "Q4_3", 0, 0},
    {kGgmlQ5_0, "Q5_0", 32, 22},
    {kGgmlQ5_1, "Q5_1", 32, 24},
    {kGgmlQ8_0, "Q8_0", 32, 34},
    {kGgmlQ8_1, "Q8_1", 32, 36},
    {kGgmlQ2_K, "Q2_K", 256, 84},
    {kGgmlQ3_K, "Q3_K", 256, 110},
    {kGgmlQ4_K, "Q4_K", 256, 144},
    {kGgmlQ5_K, "Q5_K", 256, 176},
    {kGgmlQ6_K, "Q6_K", 256, 210},
    {kGgmlQ8_K, "Q8_K", 256, 292},
    {kGgmlIQ2_XXS, "IQ2_XXS", 256, 66},
    {kGgmlIQ2_XS, "IQ2_XS", 256, 74},
    {kGgmlIQ3_XXS, "IQ3_XXS", 256, 98},
    {kGgmlIQ1_S, "IQ1_S", 256, 50},
    {kGgmlIQ4_NL, "IQ4_NL", 32, 18},
    {kGgmlIQ3_S, "IQ3_S", 256, 110},
    {kGgmlIQ2_S, "IQ2_S", 256, 82},
    {kGgmlIQ4_XS, "IQ4_XS", 256, 136},
    {kGgmlI8, "I8", 1, 1},
    {kGgmlI16, "I16", 1, 2},
    {kGgmlI32, "I32", 1, 4},
    {kGgmlI64, "I64", 1, 8},
    {kGgmlF64, "F64", 1, 8},
    {kGgmlIQ1_M, "IQ1_M", 256, 56},
    {kGgmlBF16, "BF16", 1, 2},
    {31, "Q4_0_4_4", 0, 0},
    {32, "Q4_0_4_8", 0, 0},
    {33, "Q4_0_8_8", 0, 0},
    {kGgmlTQ1_0, "TQ1_0", 256, 54},
    {kGgmlTQ2_0, "TQ2_0", 256, 66},
    {36, "IQ4_NL_4_4", 0, 0},
    {37, "IQ4_NL_4_8", 0, 0},
    {38, "IQ4_NL_8_8", 0, 0},
    {kGgmlMXFP4, "MXFP4", 32, 17},
    {kGgmlNVFP4, "NVFP4", 64, 36},
    {kGgmlQ1_0, "Q1_0", 128, 18},
    {kGgmlQ2_0, "Q2_0", 64, 18},
}};

constexpr bool ids_are_indices() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].id != i) return false;
  }
  return true;
}
static_assert(ids_are_indices());

}  // namespace

std::span<const GgmlType> ggml_types() { return kTypes; }

const GgmlType* find_ggml_type(uint32_t id) { return id < kTypes.size() ? &kTypes[id] : nullptr; }

std::string ggml_type_name(uint32_t id) {
  const GgmlType* type = find_ggml_type(id);
  return type != nullptr ? std::string(type->name) : fmt::format("type {}", id);
}

Result<int64_t> ggml_tensor_bytes(uint32_t type_id, const std::array<int64_t, 4>& dims) {
  const GgmlType* type = find_ggml_type(type_id);
  if (type == nullptr) return fail(ErrorKind::kUnsupported, "has the unknown type {}", type_id);
  if (type->retired()) {
    return fail(ErrorKind::kUnsupported, "has type {}, which was retired; convert the model again",
                type->name);
  }
  if (dims[0] % type->block_elements != 0) {
    return fail(ErrorKind::kMalformed, "has rows of {} elements, and type {} stores blocks of {}", dims[0],
                type->name, type->block_elements);
  }
  int64_t elements = dims[0];
  int64_t bytes = dims[0] / type->block_elements;
  bool wraps = __builtin_mul_overflow(bytes, type->block_bytes, &bytes);
  for (size_t i = 1; i < dims.size(); ++i) {
    wraps = wraps || __builtin_mul_overflow(bytes, dims[i], &bytes) ||
            __builtin_mul_overflow(elements, dims[i], &elements);
  }
  if (wraps) return fail(ErrorKind::kMalformed, "has the impossible shape [{}]", fmt::join(dims, ", "));
  return bytes;
}

}  // namespace soli
