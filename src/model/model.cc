#include "model/model.h"

#include <utility>

namespace soli {

Result<std::unique_ptr<Model>> Model::load(ModelFile file, Runtime& runtime, const LoadProgress& progress) {
  const std::string path = file.gguf().path();
  std::unique_ptr<Model> model(new Model(std::move(file), runtime));
  if (Status status = model->load_weights(progress); !status)
    return in_context(path, std::move(status).error());
  const ModelSpec& spec = model->spec();
  model->rope_ = {.pairing = spec.rope_pairing,
                  .head_dim = spec.head_dim,
                  .inverse_frequencies = Rope::frequencies(spec.rope_base, spec.rope_dims,
                                                           model->global_.rope_frequencies, spec.rope_scale)};
  return model;
}

Status Model::load_weights(const LoadProgress& progress) {
  layers_.resize(static_cast<size_t>(spec().n_layers));
  WeightLoader loader(file_.gguf(), runtime_, "weights");
  for (const BoundLinear& bound : file_.linears()) SOLI_RETURN_IF_ERROR(loader.add(bound.weight));
  SOLI_RETURN_IF_ERROR(loader.load(progress));
  slab_ = loader.take_slab();
  for (size_t i = 0; i < file_.linears().size(); ++i) {
    const BoundLinear& bound = file_.linears()[i];
    Linear& linear = linear_at(bound);
    linear.weight = loader.matrix(i);
    linear.slot = static_cast<int>(i);
    if (bound.bias != nullptr) SOLI_RETURN_IF_ERROR(load_bias(bound));
  }
  return load_vectors();
}

Linear& Model::linear_at(const BoundLinear& bound) {
  if (const auto* global = std::get_if<Linear GlobalWeights::*>(&bound.slot->member)) return global_.**global;
  return layers_[static_cast<size_t>(bound.layer)].*std::get<Linear LayerWeights::*>(bound.slot->member);
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
