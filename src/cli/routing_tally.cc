#include "cli/routing_tally.h"

namespace soli::cli {

ActiveTotals& ActiveTotals::operator+=(const ActiveTotals& other) {
  n_tokens += other.n_tokens;
  n_calls += other.n_calls;
  n_layers = other.n_layers;
  parameters += other.parameters;
  bytes += other.bytes;
  return *this;
}

RoutingTally::RoutingTally(const ModelSpec& spec)
    : calls_(static_cast<size_t>(spec.n_layers)), n_layers_(spec.n_moe_layers()) {
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer))
      calls_[static_cast<size_t>(layer)].assign(static_cast<size_t>(spec.router.n_experts), 0);
  }
}

void RoutingTally::on_route(const RouterView& view, const Choice& choice) {
  std::vector<int64_t>& calls = calls_[static_cast<size_t>(view.layer)];
  for (const int32_t id : choice.ids) ++calls[static_cast<size_t>(id)];
  n_routed_ += choice.n_rows();
}

ActiveTotals RoutingTally::totals(const ParameterCounts& counts, int64_t n_tokens) const {
  ActiveTotals totals;
  totals.n_layers = n_layers_;
  totals.n_tokens = n_layers_ > 0 ? n_routed_ / n_layers_ : n_tokens;
  totals.parameters = static_cast<double>(totals.n_tokens * counts.always_active.parameters);
  totals.bytes = static_cast<double>(totals.n_tokens * counts.always_active.bytes);
  for (size_t layer = 0; layer < calls_.size(); ++layer) {
    for (size_t e = 0; e < calls_[layer].size(); ++e) {
      const int64_t n = calls_[layer][e];
      totals.n_calls += n;
      totals.parameters += static_cast<double>(n) * static_cast<double>(counts.expert[layer][e].parameters);
      totals.bytes += static_cast<double>(n) * static_cast<double>(counts.expert[layer][e].bytes);
    }
  }
  return totals;
}

}  // namespace soli::cli
