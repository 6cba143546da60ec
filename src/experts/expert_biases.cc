#include "experts/expert_biases.h"

#include <algorithm>
#include <array>

#include "model/parameters.h"
#include "model/weight_loader.h"

namespace soli {

int64_t ExpertBiases::bytes_needed(const ModelFile& file) {
  int64_t n = 0;
  for (int64_t layer = 0; layer < file.spec().n_layers; ++layer) {
    n += file.spec().router.n_experts * expert_bias_size(file, layer).bytes;
  }
  return n;
}

Result<ExpertBiases> ExpertBiases::load(const ModelFile& file, Runtime& runtime) {
  ExpertBiases biases;
  const int64_t n_bytes = bytes_needed(file);
  if (n_bytes == 0) return biases;
  SOLI_ASSIGN_OR_RETURN(biases.slab_, Slab::allocate(runtime.budget(), "experts", n_bytes));
  auto* target = reinterpret_cast<float*>(biases.slab_.data());
  const int64_t n_experts = file.spec().router.n_experts;
  biases.layers_.resize(static_cast<size_t>(file.spec().n_layers));
  for (int64_t layer = 0; layer < file.spec().n_layers; ++layer) {
    for (size_t m = 0; m < kExpertMatrices; ++m) {
      const GgufTensor* const tensor = file.expert_biases(layer)[m];
      if (tensor == nullptr) continue;
      const int64_t n_rows = tensor->dims[0];
      SOLI_ASSIGN_OR_RETURN(const std::vector<float> values,
                            read_floats(file.gguf(), runtime.kernels(), {tensor, 0, n_experts, n_rows}));
      biases.layers_[static_cast<size_t>(layer)][m] = {target, n_rows};
      target = std::copy(values.begin(), values.end(), target);
    }
  }
  return biases;
}

void ExpertBiases::add_to(int64_t layer, int64_t expert, ExpertWeights& weights) const {
  constexpr std::array<std::span<const float> ExpertWeights::*, kExpertMatrices> kMembers = {
      &ExpertWeights::gate_bias, &ExpertWeights::up_bias, &ExpertWeights::down_bias};
  if (layers_.empty()) return;
  const OfLayer& of_layer = layers_[static_cast<size_t>(layer)];
  for (size_t m = 0; m < kMembers.size(); ++m) {
    if (of_layer[m].values == nullptr) continue;
    weights.*
        kMembers[m] = {of_layer[m].values + expert * of_layer[m].rows, static_cast<size_t>(of_layer[m].rows)};
  }
}

}  // namespace soli
