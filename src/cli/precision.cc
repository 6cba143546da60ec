#include "cli/precision.h"

#include <set>

namespace soli::cli {

std::optional<std::string_view> effective_precision(const kernels::KernelTable& kernels, uint32_t gguf_type,
                                                    ActivationPrecision asked) {
  const kernels::WeightKernels* const found = kernels.find(gguf_type);
  if (found == nullptr) return std::nullopt;
  if (asked == ActivationPrecision::kF32 || found->partner == kernels::ActivationForm::kF32) return "f32";
  return found->partner == kernels::ActivationForm::kBf16 ? "bf16" : "q8";
}

std::vector<uint32_t> matrix_types(const ModelFile& file) {
  std::set<uint32_t> types;
  for (const BoundLinear& linear : file.linears())
    types.insert(linear.transposed ? uint32_t{kGgmlF32} : linear.weight.tensor->type);
  for (int64_t layer = 0; layer < file.spec().n_layers; ++layer) {
    for (const std::vector<TensorRows>& matrices : file.experts(layer)) {
      for (const TensorRows& rows : matrices) types.insert(rows.tensor->type);
    }
  }
  return {types.begin(), types.end()};
}

}  // namespace soli::cli
