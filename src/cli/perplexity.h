#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace soli::cli {

/// A text cut into windows, each evaluated by itself.
struct WindowPlan {
  std::vector<std::vector<int32_t>> windows;  // BOS, where there is one, and the window's tokens
  int64_t n_scored = 0;                       // tokens with something before them: what is counted
};

/// Cuts `tokens` into windows of at most `window` positions, `bos` included, which precedes each. A last
/// window that would score nothing is left out.
WindowPlan cut_into_windows(const std::vector<int32_t>& tokens, std::optional<int32_t> bos, int64_t window);

/// Negative log-likelihood of one window.
struct WindowLoss {
  double nats = 0;  // summed
  int64_t n_tokens = 0;
  size_t window = 0;  // its number in the plan
};

struct Perplexity {
  int64_t n_tokens = 0;
  int64_t n_windows = 0;
  double nats_per_token = 0;
  /// Standard error of the mean, from how the windows differ (ratio estimator over clusters, Cochran
  /// 1977, 2.11: tokens of one window are not independent). Absent for fewer than two windows.
  std::optional<double> nats_error;

  double perplexity() const;
  /// perplexity * nats_error: first order.
  std::optional<double> perplexity_error() const;
};

Perplexity combine(const std::vector<WindowLoss>& losses);

struct Evaluation {
  int64_t n_parallel = 1;  // windows at once, at most
  /// Told the scored tokens so far and the windows done; returns false to stop.
  std::function<bool(int64_t n_scored, const std::vector<WindowLoss>& done)> on_progress;
  /// Where set, gets the logits after each position whose next token is scored.
  std::function<Status(size_t window, int64_t position, std::span<const float> logits)> on_logits = {};
  RoutingPolicy policy = {};
  bool to_the_end = false;  // on_logits gets those after the last position of a window too
  /// Where set, told which request a window became, before its first step.
  std::function<Status(size_t window, RequestId request)> on_submit = {};
};

/// Runs all windows through the engine. When it is stopped, the losses of the finished windows are returned.
/// Fails with the window at fault where the model's values are not finite.
Result<std::vector<WindowLoss>> evaluate(Engine& engine, const WindowPlan& plan,
                                         const Evaluation& evaluation);

}  // namespace soli::cli
