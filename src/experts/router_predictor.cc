#include "experts/router_predictor.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "ops/elementwise.h"

namespace soli {

int64_t RouterPredictor::bytes_needed(const ModelSpec& spec, const Workspace::Limits& limits) {
  return limits.max_rows * (spec.hidden_size + 2 * spec.router.n_experts) *
         static_cast<int64_t>(sizeof(float));
}

Result<std::unique_ptr<RouterPredictor>> RouterPredictor::create(const Model& model, TieredExpertStore& store,
                                                                 ActivationPrecision activations,
                                                                 const Workspace::Limits& limits,
                                                                 int64_t n_ahead) {
  SOLI_CHECK(n_ahead >= 1 && n_ahead <= kMostAhead, "{} layers ahead", n_ahead);
  SOLI_ASSIGN_OR_RETURN(
      Slab slab, Slab::allocate(model.runtime().budget(), "prefetch", bytes_needed(model.spec(), limits)));
  return std::unique_ptr<RouterPredictor>(
      new RouterPredictor(model, store, activations, std::move(slab), limits.max_rows, n_ahead));
}

RouterPredictor::RouterPredictor(const Model& model, TieredExpertStore& store,
                                 ActivationPrecision activations, Slab slab, int64_t max_rows,
                                 int64_t n_ahead)
    : model_(model),
      store_(store),
      context_{model.runtime().team(), model.runtime().kernels(), activations},
      slab_(std::move(slab)),
      max_rows_(max_rows),
      n_ahead_(n_ahead) {}

void RouterPredictor::on_route(const RouterView& view, const Choice& /*choice*/) {
  if (!store_.wants_predictions()) return;
  int64_t n_left = n_ahead_;
  for (int64_t layer = view.layer + 1; layer < model_.spec().n_layers && n_left > 0; ++layer) {
    if (!model_.spec().is_moe_layer(layer)) continue;
    predict(view, layer);
    --n_left;
  }
}

void RouterPredictor::predict(const RouterView& view, int64_t layer) {
  const ModelSpec& spec = model_.spec();
  const LayerWeights& weights = model_.layer(layer);
  const int64_t n_rows = view.residual.rows;
  SOLI_CHECK(n_rows <= max_rows_, "{} rows", n_rows);
  auto* const floats = reinterpret_cast<float*>(slab_.data());
  const MatrixView<float> input(floats, n_rows, spec.hidden_size);
  const MatrixView<float> logits(floats + max_rows_ * spec.hidden_size, n_rows, spec.router.n_experts);
  const MatrixView<float> scores(logits.data + max_rows_ * spec.router.n_experts, n_rows,
                                 spec.router.n_experts);
  rms_norm(context_, view.residual,
           {weights.ffn_norm, weights.ffn_norm_bias, static_cast<float>(spec.norm_epsilon)}, input);
  linear(context_, weights.router, input, logits);
  router_scores(context_, spec.router, logits, scores);
  row_failed_.assign(static_cast<size_t>(n_rows), 0);
  select_experts(context_, spec.router, {.bias = weights.selection_bias, .layer = layer}, view.rows, logits,
                 scores, choice_, row_failed_);
  tell(layer);
}

/// The experts of the choice, those that most rows call first.
void RouterPredictor::tell(int64_t layer) {
  const auto n_experts = static_cast<size_t>(model_.spec().router.n_experts);
  calls_.assign(n_experts, 0);
  for (const int32_t id : choice_.ids) ++calls_[static_cast<size_t>(id)];
  order_.resize(n_experts);
  std::iota(order_.begin(), order_.end(), 0);
  std::erase_if(order_, [&](int32_t id) { return calls_[static_cast<size_t>(id)] == 0; });
  std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    return calls_[static_cast<size_t>(a)] > calls_[static_cast<size_t>(b)];
  });
  store_.expect(layer, order_);
}

}  // namespace soli
