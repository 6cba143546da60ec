#pragma once

// Hand-made routing traces for the tests of observe.

#include <cstdint>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "observe/activation_recorder.h"

namespace soli {

/// What one token chose in one layer.
struct TestRoute {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

/// Calls the recorder as a step does that has one row, with this logit for each expert: all score alike.
inline void record(ActivationRecorder& recorder, const RouterSpec& spec, RequestId request, int64_t position,
                   int64_t layer, const TestRoute& route, float logit = 0) {
  BatchRow row;
  row.request = request;
  row.position = position;
  row.token = static_cast<int32_t>(100 + position);
  const std::vector<float> scores(static_cast<size_t>(spec.n_experts),
                                  1.0F / static_cast<float>(spec.n_experts));
  const std::vector<float> logits(scores.size(), logit);
  RouterView view;
  view.layer = layer;
  view.rows = {&row, 1};
  view.spec = &spec;
  view.logits = {logits.data(), 1, spec.n_experts};
  view.scores = {scores.data(), 1, spec.n_experts};
  Choice choice;
  choice.row_begin = {0, static_cast<int32_t>(route.ids.size())};
  choice.ids = route.ids;
  choice.weights = route.weights;
  recorder.on_route(view, choice);
}

/// A model of layer 0 dense and `n_moe_layers` MoE layers, 2 heads of 4 dimensions.
inline ModelSpec test_spec(int64_t n_experts, int64_t k, int64_t n_moe_layers) {
  ModelSpec spec;
  spec.architecture = "test";
  spec.n_layers = 1 + n_moe_layers;
  spec.n_leading_dense_layers = 1;
  spec.n_heads = 2;
  spec.head_dim = 4;
  spec.value_dim = 3;
  spec.router.n_experts = n_experts;
  spec.router.experts_per_token = k;
  return spec;
}

/// 1000 parameters of 2 bytes for every token, and 10 + e parameters of 1 byte for expert e.
inline ParameterCounts test_counts(const ModelSpec& spec) {
  ParameterCounts counts;
  counts.always_active = {1000, 2000};
  counts.nominal_total = counts.always_active;
  counts.expert.resize(static_cast<size_t>(spec.n_layers));
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    for (int64_t e = 0; e < spec.router.n_experts; ++e) {
      counts.expert[static_cast<size_t>(layer)].push_back({10 + e, 10 + e});
      counts.nominal_total += {10 + e, 10 + e};
    }
  }
  return counts;
}

}  // namespace soli
