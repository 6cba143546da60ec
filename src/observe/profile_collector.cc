#include "observe/profile_collector.h"

#include <algorithm>
#include <functional>

namespace soli {
namespace {

constexpr float kMaskedLogit = -1e29F;  // masked ones lie below

}  // namespace

std::optional<double> margin_below(std::span<float> logits, int64_t k) {
  if (k < 1 || k >= static_cast<int64_t>(logits.size())) return std::nullopt;
  const auto next = logits.begin() + k;
  std::nth_element(logits.begin(), next, logits.end(), std::greater<>());
  if (*next < kMaskedLogit) return std::nullopt;
  const float last = *std::min_element(logits.begin(), next);
  return static_cast<double>(last) - static_cast<double>(*next);
}

ProfileCollector::ProfileCollector(const ProfileShape& shape) {
  if (shape.layers.empty()) return;
  place_of_layer_.resize(static_cast<size_t>(shape.layers.back()) + 1);
  for (size_t i = 0; i < shape.layers.size(); ++i) place_of_layer_[static_cast<size_t>(shape.layers[i])] = i;
}

void ProfileCollector::begin(RequestId request, RoutingWindow& window, int64_t first_position) {
  windows_[request] = {&window, first_position};
}

void ProfileCollector::on_route(const RouterView& view, const Choice& choice) {
  for (int64_t row = 0; row < choice.n_rows(); ++row) {
    const BatchRow& from = view.rows[static_cast<size_t>(row)];
    const auto target = windows_.find(from.request);
    if (target == windows_.end() || from.position < target->second.first_position) continue;
    add_row(view, choice, row, *target->second.window);
  }
}

void ProfileCollector::add_row(const RouterView& view, const Choice& choice, int64_t row,
                               RoutingWindow& window) {
  const std::span<const int32_t> ids = choice.ids_of(row);
  const std::span<const float> weights = choice.weights_of(row);
  calls_.clear();
  for (size_t i = 0; i < ids.size(); ++i) calls_.push_back({ids[i], weights[i]});
  const auto n_experts = static_cast<size_t>(view.logits.cols);
  logits_.assign(view.logits.row(row), view.logits.row(row) + n_experts);
  const std::optional<double> margin = margin_below(logits_, static_cast<int64_t>(ids.size()));
  const ProfiledToken token = {.position = view.rows[static_cast<size_t>(row)].position,
                               .calls = calls_,
                               .gate_entropy_bits = gate_entropy_bits({view.scores.row(row), n_experts}),
                               .has_margin = margin.has_value(),
                               .margin = margin.value_or(0)};
  window.add(place_of_layer_[static_cast<size_t>(view.layer)], token);
}

}  // namespace soli
