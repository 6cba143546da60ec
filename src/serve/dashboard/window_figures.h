#pragma once

// What a window of the dashboard counts beside the calls of experts, as numbers that add up over time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "serve/metrics.h"

namespace soli::serve {

/// Places among the figures of a HeatWindow. The buckets of both histograms of latency follow.
enum WindowFigure : size_t {
  kPromptTokens,
  kCachedPromptTokens,
  kGeneratedTokens,
  kFinishedChoices,
  kRefusedRequests,
  kPreemptions,
  kSteps,
  kPromptRows,
  kDecodeRows,
  kSamples,  // how often was counted: sums of the next four are divided by it
  kRunning,
  kWaiting,
  kKvUsage,
  kOpenAlarms,
  kBusySeconds,
  kCacheHits,
  kCacheLate,
  kCacheMisses,
  kReadBytes,
  kWaitSeconds,
  kFirstTokenSeconds,
  kPerTokenSeconds,
  kWindowFigures,
};

/// What counters stood at, to tell what has been added since. One thread.
class WindowFigureCounter {
 public:
  explicit WindowFigureCounter(const Latencies& latencies);

  size_t n_figures() const { return kWindowFigures + n_first_token_ + n_per_token_; }
  std::span<const double> first_token_bounds() const { return first_token_bounds_; }
  std::span<const double> per_token_bounds() const { return per_token_bounds_; }
  /// The buckets of one window's figures.
  std::span<const double> first_token_of(std::span<const double> figures) const {
    return figures.subspan(kWindowFigures, n_first_token_);
  }
  std::span<const double> per_token_of(std::span<const double> figures) const {
    return figures.subspan(kWindowFigures + n_first_token_, n_per_token_);
  }

  /// [n_figures()]: what was added since the last call, or since it was made. `busy_seconds` of all experts.
  std::vector<double> take(const ModelFigures& model, const Latencies& latencies, double busy_seconds,
                           int64_t n_open_alarms);

 private:
  size_t n_first_token_;  // buckets, that beyond the last bound included
  size_t n_per_token_;
  std::vector<double> first_token_bounds_;
  std::vector<double> per_token_bounds_;
  std::vector<double> before_;  // cumulative
};

/// The q-quantile of values that were counted in buckets: `counts` [n + 1] of values up to each of `bounds`
/// [n], and beyond. Linear within a bucket, as histogram_quantile() of Prometheus; beyond the last bound,
/// that bound. NaN where there are none.
double quantile_of(std::span<const double> bounds, std::span<const double> counts, double q);

}  // namespace soli::serve
