#include "experts/resident_store.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "model/packed_loader.h"
#include "model/parameters.h"

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
  int64_t n_moe_layers = 0;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    moe_layer_.push_back(spec.is_moe_layer(layer) ? n_moe_layers++ : -1);
  const auto n = static_cast<size_t>(n_moe_layers * n_experts_);
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
    SOLI_RETURN_IF_ERROR(file.packed() != nullptr ? store->load_packed(file, runtime, progress)
                                                  : store->load_plain(file, runtime, progress));
    return store->load_biases(file, runtime);
  };
  if (Status status = load_all(); !status) return in_context(file.gguf().path(), std::move(status).error());
  return store;
}

Status ResidentExpertStore::load_plain(const ModelFile& file, Runtime& runtime,
                                       const LoadProgress& progress) {
  WeightLoader loader(file.gguf(), runtime, "experts");
  SOLI_ASSIGN_OR_RETURN(const std::vector<size_t> numbers, plan_experts(file, loader));
  SOLI_RETURN_IF_ERROR(loader.load(progress));
  slab_ = loader.take_slab();
  size_t next = 0;
  for (ExpertWeights& expert : experts_) {
    expert.activation = file.spec().activation;
    for (PackedMatrix* matrix : {&expert.gate, &expert.up, &expert.down})
      *matrix = loader.matrix(numbers[next++]);
  }
  return {};
}

Status ResidentExpertStore::load_packed(const ModelFile& file, Runtime& runtime,
                                        const LoadProgress& progress) {
  const ModelSpec& spec = file.spec();
  SOLI_ASSIGN_OR_RETURN(slab_, load_extents(file, runtime, "experts", progress));
  const std::byte* data = slab_.data();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    for (int64_t e = 0; e < n_experts_; ++e) {
      ExpertWeights& expert = experts_[index(layer, e)];
      expert.activation = spec.activation;
      SOLI_ASSIGN_OR_RETURN(const auto matrices, matrices_of_extent(file, runtime.kernels(), layer, e, data));
      std::tie(expert.gate, expert.up, expert.down) = std::tie(matrices[0], matrices[1], matrices[2]);
      data += file.extent(layer, e)->bytes;
    }
  }
  return {};
}

int64_t ResidentExpertStore::bias_bytes(const ModelFile& file) {
  int64_t n = 0;
  for (int64_t layer = 0; layer < file.spec().n_layers; ++layer) {
    n += file.spec().router.n_experts * expert_bias_size(file, layer).bytes;
  }
  return n;
}

Status ResidentExpertStore::load_biases(const ModelFile& file, Runtime& runtime) {
  constexpr std::array<std::span<const float> ExpertWeights::*, kExpertMatrices> kMembers = {
      &ExpertWeights::gate_bias, &ExpertWeights::up_bias, &ExpertWeights::down_bias};
  const int64_t n_bytes = bias_bytes(file);
  if (n_bytes == 0) return {};
  SOLI_ASSIGN_OR_RETURN(biases_, Slab::allocate(runtime.budget(), "experts", n_bytes));
  auto* target = reinterpret_cast<float*>(biases_.data());
  for (int64_t layer = 0; layer < file.spec().n_layers; ++layer) {
    for (size_t m = 0; m < kMembers.size(); ++m) {
      const GgufTensor* const tensor = file.expert_biases(layer)[m];
      if (tensor == nullptr) continue;
      const int64_t n_rows = tensor->dims[0];
      SOLI_ASSIGN_OR_RETURN(const std::vector<float> values,
                            read_floats(file.gguf(), runtime.kernels(), {tensor, 0, n_experts_, n_rows}));
      std::copy(values.begin(), values.end(), target);
      for (int64_t e = 0; e < n_experts_; ++e, target += n_rows)
        experts_[index(layer, e)].*kMembers[m] = {target, static_cast<size_t>(n_rows)};
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
  if (moe_layer_[static_cast<size_t>(layer)] < 0) return 0;
  return reads_[index(layer, expert)].load(std::memory_order_relaxed);
}

}  // namespace soli
