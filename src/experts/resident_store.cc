#include "experts/resident_store.h"

#include <tuple>
#include <utility>

#include "model/packed_loader.h"

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
    SOLI_ASSIGN_OR_RETURN(store->biases_, ExpertBiases::load(file, runtime));
    for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
      if (!spec.is_moe_layer(layer)) continue;
      for (int64_t e = 0; e < spec.router.n_experts; ++e)
        store->biases_.add_to(layer, e, store->experts_[store->index(layer, e)]);
    }
    return {};
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

Status ResidentExpertStore::stream(const Demand& demand, UseWave use) {
  wave_.clear();
  const std::vector<int32_t>& ids = demand.grouped.experts;
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t expert = index(demand.layer, ids[i]);
    wave_.push_back({static_cast<int64_t>(i), experts_[expert]});
    reads_[expert].fetch_add(1, std::memory_order_relaxed);
  }
  if (!wave_.empty()) use(wave_);
  return {};
}

int64_t ResidentExpertStore::reads(int64_t layer, int64_t expert) const {
  if (moe_layer_[static_cast<size_t>(layer)] < 0) return 0;
  return reads_[index(layer, expert)].load(std::memory_order_relaxed);
}

}  // namespace soli
