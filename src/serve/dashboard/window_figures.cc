#include "serve/dashboard/window_figures.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace soli::serve {
namespace {

/// All that only grows, at its place.
std::vector<double> cumulative_figures(size_t n, const ModelFigures& model, const Latencies& latencies,
                                       double busy_seconds) {
  const EngineCounters& engine = model.engine;
  std::vector<double> now(n);
  const auto put = [&now](size_t at, int64_t value) { now[at] = static_cast<double>(value); };
  put(kPromptTokens, engine.prompt_tokens);
  put(kCachedPromptTokens, engine.cached_prompt_tokens);
  put(kGeneratedTokens, engine.generated_tokens);
  put(kFinishedChoices, std::accumulate(engine.n_finished.begin(), engine.n_finished.end(), int64_t{0}));
  put(kRefusedRequests, engine.n_refused);
  put(kPreemptions, engine.n_preempted);
  put(kSteps, engine.steps);
  put(kPromptRows, engine.prompt_rows);
  put(kDecodeRows, engine.decode_rows);
  now[kBusySeconds] = busy_seconds;
  if (model.cache) {
    put(kCacheHits, model.cache->hits);
    put(kCacheLate, model.cache->late_prefetches);
    put(kCacheMisses, model.cache->demand_misses);
    put(kReadBytes, model.cache->bytes_read());
    now[kWaitSeconds] = static_cast<double>(model.cache->wait_ns) * 1e-9;
  }
  now[kFirstTokenSeconds] = latencies.first_token.sum;
  now[kPerTokenSeconds] = latencies.per_token.sum;
  size_t at = kWindowFigures;
  for (const LatencyCounts* const counts : {&latencies.first_token, &latencies.per_token}) {
    for (const uint64_t count : counts->counts) now[at++] = static_cast<double>(count);
  }
  return now;
}

}  // namespace

WindowFigureCounter::WindowFigureCounter(const Latencies& latencies)
    : n_first_token_(latencies.first_token.counts.size()),
      n_per_token_(latencies.per_token.counts.size()),
      first_token_bounds_(latencies.first_token.bounds),
      per_token_bounds_(latencies.per_token.bounds),
      before_(n_figures()) {}

std::vector<double> WindowFigureCounter::take(const ModelFigures& model, const Latencies& latencies,
                                              double busy_seconds, int64_t n_open_alarms) {
  std::vector<double> now = cumulative_figures(n_figures(), model, latencies, busy_seconds);
  std::vector<double> added(now.size());
  for (size_t i = 0; i < now.size(); ++i) added[i] = std::max(0.0, now[i] - before_[i]);
  before_ = std::move(now);
  added[kSamples] = 1;
  added[kRunning] = static_cast<double>(model.engine.n_running);
  added[kWaiting] = static_cast<double>(model.engine.n_waiting);
  added[kOpenAlarms] = static_cast<double>(n_open_alarms);
  if (model.max_kv_pages > 0) {
    added[kKvUsage] =
        static_cast<double>(model.engine.kv_pages_in_use) / static_cast<double>(model.max_kv_pages);
  }
  return added;
}

double quantile_of(std::span<const double> bounds, std::span<const double> counts, double q) {
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (n <= 0) return std::numeric_limits<double>::quiet_NaN();
  const double rank = q * n;
  double below = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (counts[i] > 0 && below + counts[i] >= rank) {
      const double least = i == 0 ? 0 : bounds[i - 1];
      return least + (bounds[i] - least) * (rank - below) / counts[i];
    }
    below += counts[i];
  }
  return bounds.empty() ? std::numeric_limits<double>::quiet_NaN() : bounds.back();
}

}  // namespace soli::serve
