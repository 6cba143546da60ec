#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace soli {

Result<std::unique_ptr<Model>> Model::load(ModelFile file, Runtime& runtime, const LoadProgress& progress) {
  const std::string path = file.gguf().path();
  std::unique_ptr<Model> model(new Model(std::move(file), runtime));
  if (Status status = model->load_weights(progress); !status)
    return in_context(path, std::move(status).error());
  return model;
}

Status Model::load_weights(const LoadProgress& progress) {
  layers_.resize(static_cast<size_t>(spec().n_layers));
  WeightLoader loader(file_.gguf(), runtime_, "weights");
  std::vector<const BoundLinear*> as_stored;
  std::vector<const BoundLinear*> transposed;
  for (const BoundLinear& bound : file_.linears()) {
    (bound.transposed ? transposed : as_stored).push_back(&bound);
    if (!bound.transposed) SOLI_RETURN_IF_ERROR(loader.add(bound.weight));
  }
  SOLI_RETURN_IF_ERROR(loader.load(progress));
  slab_ = loader.take_slab();
  for (size_t i = 0; i < as_stored.size(); ++i) {
    const BoundLinear& bound = *as_stored[i];
    Linear& linear = linear_at(bound);
    linear.weight = loader.matrix(i);
    linear.slot = static_cast<int>(&bound - file_.linears().data());
    if (bound.bias != nullptr) SOLI_RETURN_IF_ERROR(load_bias(bound));
  }
  SOLI_RETURN_IF_ERROR(load_transposed(transposed));
  SOLI_RETURN_IF_ERROR(load_vectors());
  return file_.gguf().check_unchanged();
}

/// Blocks of the stored type run across what would be a row: such a matrix becomes floats, which are exact.
Status Model::load_transposed(std::span<const BoundLinear* const> bounds) {
  const kernels::WeightKernels* const floats = runtime_.kernels().find(kGgmlF32);
  int64_t n_bytes = 0;
  for (const BoundLinear* bound : bounds) n_bytes += transposed_matrix(*floats, *bound).packed_bytes();
  if (n_bytes == 0) return {};
  SOLI_ASSIGN_OR_RETURN(transposed_slab_, Slab::allocate(runtime_.budget(), "weights", n_bytes));
  std::byte* target = transposed_slab_.data();
  for (const BoundLinear* bound : bounds) {
    PackedMatrix matrix = transposed_matrix(*floats, *bound);
    SOLI_ASSIGN_OR_RETURN(const std::vector<float> stored,
                          read_floats(file_.gguf(), runtime_.kernels(), bound->weight));
    std::vector<float> rows(static_cast<size_t>(matrix.n_strips() * kernels::kStripRows * matrix.cols));
    for (int64_t r = 0; r < matrix.rows; ++r) {
      for (int64_t c = 0; c < matrix.cols; ++c)
        rows[static_cast<size_t>(r * matrix.cols + c)] = stored[static_cast<size_t>(c * matrix.rows + r)];
    }
    for (int64_t strip = 0; strip < matrix.n_strips(); ++strip) {
      const float* const from = rows.data() + strip * kernels::kStripRows * matrix.cols;
      floats->pack_strip(reinterpret_cast<const std::byte*>(from), matrix.cols,
                         target + strip * matrix.strip_bytes());
    }
    matrix.data = target;
    target += matrix.packed_bytes();
    linear_at(*bound).weight = matrix;
    linear_at(*bound).slot = static_cast<int>(bound - file_.linears().data());
  }
  return {};
}

PackedMatrix transposed_matrix(const kernels::WeightKernels& floats, const BoundLinear& bound) {
  return {.type = &floats, .data = nullptr, .rows = bound.weight.cols, .cols = bound.weight.rows};
}

Rope Model::rope(int64_t context_length) const {
  const ModelSpec& spec = this->spec();
  const int64_t original = spec.rope_original_context > 0 ? spec.rope_original_context : spec.context_length;
  RopeScaling scaling = {.factor = spec.rope_scale,
                         .original_context = static_cast<double>(original),
                         .beta_fast = spec.yarn_beta_fast,
                         .beta_slow = spec.yarn_beta_slow};
  double magnitude = spec.rope_magnitude;
  std::span<const float> factors = global_.rope_frequencies;
  if (spec.position_scaling == PositionScaling::kYarn) {
    scaling.kind = RopeScaling::Kind::kYarn;
    // Peng et al. 2023, section 3.4; DeepSeek scales the product of query and key instead.
    if (spec.yarn_log_multiplier == 0) magnitude *= 1 + 0.1 * std::log(std::max(1.0, spec.rope_scale));
  } else if (spec.position_scaling == PositionScaling::kLongRope) {
    factors = context_length > original ? global_.rope_long_frequencies : global_.rope_short_frequencies;
  }
  return {.pairing = spec.rope_pairing,
          .head_dim = spec.head_dim,
          .first = spec.is_latent() ? spec.latent_rank : 0,
          .inverse_frequencies = Rope::frequencies(spec.rope_base, spec.rope_dims, factors, scaling),
          .magnitude = magnitude};
}

Linear& Model::linear_at(const BoundLinear& bound) {
  if (const auto* global = std::get_if<Linear GlobalWeights::*>(&bound.slot->member)) return global_.**global;
  LayerWeights& layer = layers_[static_cast<size_t>(bound.layer)];
  if (const auto* of_layer = std::get_if<Linear LayerWeights::*>(&bound.slot->member))
    return layer.**of_layer;
  std::vector<Linear>& heads = layer.*std::get<std::vector<Linear> LayerWeights::*>(bound.slot->member);
  heads.resize(static_cast<size_t>(spec().n_heads));
  return heads[static_cast<size_t>(bound.head)];
}

std::span<const float>& Model::vector_at(const BoundVector& bound) {
  if (const auto* global = std::get_if<std::span<const float> GlobalWeights::*>(&bound.slot->member)) {
    return global_.**global;
  }
  return layers_[static_cast<size_t>(bound.layer)].*
         std::get<std::span<const float> LayerWeights::*>(bound.slot->member);
}

Status Model::load_bias(const BoundLinear& bound) {
  const int64_t all = bound.bias->elements();
  SOLI_ASSIGN_OR_RETURN(std::vector<float> values,
                        read_floats(file_.gguf(), runtime_.kernels(), {bound.bias, 0, 1, all}));
  vectors_.push_back(std::move(values));
  linear_at(bound).bias =
      std::span(vectors_.back())
          .subspan(static_cast<size_t>(bound.bias_first), static_cast<size_t>(bound.weight.rows));
  return {};
}

Status Model::load_vectors() {
  for (const BoundVector& bound : file_.vectors()) {
    SOLI_ASSIGN_OR_RETURN(std::vector<float> values,
                          read_floats(file_.gguf(), runtime_.kernels(), bound.values));
    vectors_.push_back(std::move(values));
    vector_at(bound) = vectors_.back();
  }
  return {};
}

}  // namespace soli
