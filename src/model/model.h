#pragma once

#include <memory>
#include <vector>

#include "base/slab.h"
#include "model/layer_weights.h"
#include "model/model_file.h"
#include "model/parameters.h"
#include "model/weight_loader.h"
#include "ops/rope.h"
#include "ops/runtime.h"

namespace soli {

/// The matrix that a transposed slot becomes in memory, of floats; `data` is not set.
PackedMatrix transposed_matrix(const kernels::WeightKernels& floats, const BoundLinear& bound);

/// A model whose shared weights are in memory. Its routed experts live in an ExpertStore (experts/).
/// Immutable after load, so engines may share it. Borrows the Runtime, which must outlive it.
class Model {
 public:
  /// Reads everything but the routed experts.
  static Result<std::unique_ptr<Model>> load(ModelFile file, Runtime& runtime, const LoadProgress& progress);

  const ModelFile& file() const { return file_; }
  const ModelSpec& spec() const { return file_.spec(); }
  const GlobalWeights& global() const { return global_; }
  const LayerWeights& layer(int64_t layer) const { return layers_[static_cast<size_t>(layer)]; }
  /// The output head: [vocab][hidden], the embedding where it is tied.
  const Linear& output() const { return global_.output ? global_.output : global_.token_embedding; }
  /// How positions rotate in contexts of so many positions: some models have factors for long ones.
  Rope rope(int64_t context_length) const;
  Runtime& runtime() const { return runtime_; }

 private:
  Model(ModelFile file, Runtime& runtime) : file_(std::move(file)), runtime_(runtime) {}
  Status load_weights(const LoadProgress& progress);
  Linear& linear_at(const BoundLinear& bound);
  Status load_transposed(std::span<const BoundLinear* const> bounds);
  std::span<const float>& vector_at(const BoundVector& bound);
  Status load_vectors();
  Status load_bias(const BoundLinear& bound);

  ModelFile file_;
  Runtime& runtime_;
  Slab slab_;
  Slab transposed_slab_;
  std::vector<std::vector<float>> vectors_;  // norms and biases
  GlobalWeights global_;
  std::vector<LayerWeights> layers_;
};

}  // namespace soli
