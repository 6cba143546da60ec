#include "experts/resident_store.h"

#include <array>
#include <utility>

namespace soli {
namespace {

/// Plans the three matrices of every expert; returns their numbers, [layer][expert][matrix] over the MoE
/// layers.
Result<std::vector<size_t>> plan_experts(const ModelFile& file, WeightLoader& loader) {
  std::vector<size_t> numbers;
  const ModelSpec& spec = file.spec();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    for (size_t e = 0; e < static_cast<size_t>(spec.router.n_experts); ++e) {
      for (const std::vector<TensorRows>& matrix : file.experts(layer)) {
        SOLI_ASSIGN_OR_RETURN(const size_t number, loader.add(matrix[e]));
        numbers.push_back(number);
      }
    }
  }
  return numbers;
}

}  // namespace

ResidentExpertStore::ResidentExpertStore(const ModelSpec& spec) : n_experts_(spec.router.n_experts) {
  const auto n = static_cast<size_t>(spec.n_layers * n_experts_);
  experts_.resize(n);
  reads_ = std::make_unique<std::atomic<int64_t>[]>(n);
}

Result<std::unique_ptr<ResidentExpertStore>> ResidentExpertStore::load(const ModelFile& file,
                                                                       Runtime& runtime,
                                                                       const LoadProgress& progress) {
  const ModelSpec& spec = file.spec();
  std::unique_ptr<ResidentExpertStore> store(new ResidentExpertStore(spec));
  if (!spec.is_moe()) return store;
  const auto load_all = [&]() -> Status {
    WeightLoader loader(file.gguf(), runtime, "experts");
    SOLI_ASSIGN_OR_RETURN(const std::vector<size_t> numbers, plan_experts(file, loader));
    SOLI_RETURN_IF_ERROR(loader.load(progress));
    store->slab_ = loader.take_slab();
    size_t next = 0;
    for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
      if (!spec.is_moe_layer(layer)) continue;
      for (int64_t e = 0; e < spec.router.n_experts; ++e) {
        ExpertWeights& expert = store->experts_[store->index(layer, e)];
        expert.activation = spec.activation;
        for (PackedMatrix* matrix : {&expert.gate, &expert.up, &expert.down})
          *matrix = loader.matrix(numbers[next++]);
      }
      SOLI_RETURN_IF_ERROR(store->load_biases(file, runtime, layer));
    }
    return {};
  };
  if (Status status = load_all(); !status) return in_context(file.gguf().path(), std::move(status).error());
  return store;
}

Status ResidentExpertStore::load_biases(const ModelFile& file, Runtime& runtime, int64_t layer) {
  constexpr std::array<std::span<const float> ExpertWeights::*, kExpertMatrices> kMembers = {
      &ExpertWeights::gate_bias, &ExpertWeights::up_bias, &ExpertWeights::down_bias};
  for (size_t m = 0; m < kMembers.size(); ++m) {
    const GgufTensor* const tensor = file.expert_biases(layer)[m];
    if (tensor == nullptr) continue;
    const int64_t n_rows = tensor->dims[0];
    SOLI_ASSIGN_OR_RETURN(std::vector<float> values,
                          read_floats(file.gguf(), runtime.kernels(), {tensor, 0, n_experts_, n_rows}));
    biases_.push_back(std::move(values));
    for (int64_t e = 0; e < n_experts_; ++e) {
      experts_[index(layer, e)].*kMembers[m] =
          std::span(biases_.back()).subspan(static_cast<size_t>(e * n_rows), static_cast<size_t>(n_rows));
    }
  }
  return {};
}

Status ResidentExpertStore::stream(int64_t layer, std::span<const int32_t> ids, UseWave use) {
  wave_.clear();
  for (size_t i = 0; i < ids.size(); ++i) {
    wave_.push_back({static_cast<int64_t>(i), experts_[index(layer, ids[i])]});
    reads_[index(layer, ids[i])].fetch_add(1, std::memory_order_relaxed);
  }
  if (!wave_.empty()) use(wave_);
  return {};
}

int64_t ResidentExpertStore::reads(int64_t layer, int64_t expert) const {
  return reads_[index(layer, expert)].load(std::memory_order_relaxed);
}

}  // namespace soli
