#pragma once

#include <cstdint>
#include <vector>

#include "model/hooks.h"
#include "model/parameters.h"

namespace soli::cli {

/// What the tokens of a run multiplied with, counted from their choices.
struct ActiveTotals {
  int64_t n_tokens = 0;  // that went through the model
  int64_t n_calls = 0;   // of experts, over all layers
  int64_t n_layers = 0;  // with experts
  double parameters = 0;
  double bytes = 0;  // as stored in the file

  double parameters_per_token() const { return per_token(parameters); }
  double bytes_per_token() const { return per_token(bytes); }
  /// Experts of a token in a layer, on average.
  double experts_per_token() const {
    return n_layers > 0 ? per_token(static_cast<double>(n_calls)) / static_cast<double>(n_layers) : 0;
  }
  ActiveTotals& operator+=(const ActiveTotals& other);

 private:
  double per_token(double sum) const { return n_tokens > 0 ? sum / static_cast<double>(n_tokens) : 0; }
};

/// Counts the calls of each expert. On the engine's thread.
class RoutingTally final : public RouterObserver {
 public:
  explicit RoutingTally(const ModelSpec& spec);

  void on_route(const RouterView& view, const Choice& choice) override;
  /// `n_tokens` of a dense model, whose tokens nobody routes.
  ActiveTotals totals(const ParameterCounts& counts, int64_t n_tokens) const;
  const std::vector<std::vector<int64_t>>& calls() const { return calls_; }

 private:
  std::vector<std::vector<int64_t>> calls_;  // [layer][expert]; empty for dense layers
  int64_t n_routed_ = 0;                     // rows, over all layers
  int64_t n_layers_ = 0;                     // with experts
};

}  // namespace soli::cli
