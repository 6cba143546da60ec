// GET /api/v1/dashboard/series: figures over time, column by column.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "serve/dashboard/heat_json.h"

namespace soli::serve {
namespace {

using openai::Json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // null, as JSON

struct SeriesColumn {
  const char* name;
  std::function<Json(const HeatWindow&)> value;
};

Json whole(double value) { return static_cast<int64_t>(std::llround(value)); }

/// Balance over the layers that were called.
struct WindowBalance {
  double entropy = kNone;
  double variation = kNone;
  double hottest_share = kNone;
};

WindowBalance mean_balance(const HeatHistory& history, const HeatWindow& window) {
  WindowBalance mean;
  int64_t n = 0;
  double entropy = 0;
  double variation = 0;
  double hottest = 0;
  for (int64_t layer = 0; window.n_calls > 0 && layer < history.options().n_layers; ++layer) {
    const LayerBalance balance = history.balance_of(window, layer);
    if (std::isnan(balance.entropy)) continue;
    ++n;
    entropy += static_cast<double>(balance.entropy);
    variation += static_cast<double>(balance.variation);
    hottest = std::max(hottest, static_cast<double>(balance.hottest_share));
  }
  if (n == 0) return mean;
  return {entropy / static_cast<double>(n), variation / static_cast<double>(n), hottest};
}

Json by_layer(const HeatHistory& history, const HeatWindow& window, float LayerBalance::*part) {
  if (window.n_calls == 0) return {};
  Json values = Json::array();
  for (int64_t layer = 0; layer < history.options().n_layers; ++layer)
    values.push_back(history.balance_of(window, layer).*part);
  return values;
}

/// Sum over the window.
SeriesColumn counted(const char* name, size_t figure) {
  return {name, [figure](const HeatWindow& window) { return whole(window.figures[figure]); }};
}
SeriesColumn seconds_of(const char* name, size_t figure) {
  return {name, [figure](const HeatWindow& window) { return window.figures[figure]; }};
}
/// Mean over the samples of the window.
SeriesColumn sampled(const char* name, size_t figure) {
  return {name,
          [figure](const HeatWindow& window) { return window.figures[figure] / window.figures[kSamples]; }};
}
SeriesColumn absent(const char* name) {
  return {name, [](const HeatWindow&) { return Json(); }};
}

void add_engine_columns(std::vector<SeriesColumn>& columns) {
  columns.insert(
      columns.end(),
      {counted("prompt_tokens", kPromptTokens), counted("cached_prompt_tokens", kCachedPromptTokens),
       counted("generated_tokens", kGeneratedTokens), counted("finished", kFinishedChoices),
       counted("refused", kRefusedRequests), counted("preempted", kPreemptions), counted("steps", kSteps),
       counted("prompt_rows", kPromptRows), counted("decode_rows", kDecodeRows), sampled("running", kRunning),
       sampled("waiting", kWaiting), sampled("kv_usage", kKvUsage)});
}

void add_latency_columns(std::vector<SeriesColumn>& columns, const WindowFigureCounter& counter) {
  const auto mean = [](double sum, std::span<const double> counts) {
    double n = 0;
    for (const double count : counts) n += count;
    return n > 0 ? sum / n : kNone;
  };
  columns.push_back({"first_token_mean", [&counter, mean](const HeatWindow& window) {
                       return mean(window.figures[kFirstTokenSeconds],
                                   counter.first_token_of(window.figures));
                     }});
  columns.push_back({"per_token_mean", [&counter, mean](const HeatWindow& window) {
                       return mean(window.figures[kPerTokenSeconds], counter.per_token_of(window.figures));
                     }});
  for (const auto& [first, per_token, q] : {std::tuple{"first_token_p50", "per_token_p50", 0.5},
                                            std::tuple{"first_token_p95", "per_token_p95", 0.95}}) {
    columns.push_back({first, [&counter, q = q](const HeatWindow& window) {
                         return quantile_of(counter.first_token_bounds(),
                                            counter.first_token_of(window.figures), q);
                       }});
    columns.push_back({per_token, [&counter, q = q](const HeatWindow& window) {
                         return quantile_of(counter.per_token_bounds(), counter.per_token_of(window.figures),
                                            q);
                       }});
  }
}

void add_cache_columns(std::vector<SeriesColumn>& columns, bool has_cache) {
  if (has_cache) {
    columns.insert(columns.end(), {counted("cache_hits", kCacheHits), counted("cache_late", kCacheLate),
                                   counted("cache_misses", kCacheMisses), counted("read_bytes", kReadBytes),
                                   seconds_of("wait_seconds", kWaitSeconds)});
    return;
  }
  for (const char* const name : {"cache_hits", "cache_late", "cache_misses", "read_bytes", "wait_seconds"})
    columns.push_back(absent(name));
}

std::vector<SeriesColumn> all_columns(const HeatView& view, const WindowFigureCounter& counter,
                                      const SeriesQuery& query) {
  const HeatHistory& history = view.history;
  std::vector<SeriesColumn> columns = {
      {"begin", [](const HeatWindow& window) { return window.begin_ms; }},
      {"complete", [](const HeatWindow& window) { return window.complete; }},
      {"seconds", [](const HeatWindow& window) { return static_cast<double>(window.counted_ms) * 1e-3; }}};
  add_engine_columns(columns);
  add_latency_columns(columns, counter);
  columns.push_back({"expert_calls", [](const HeatWindow& window) { return window.n_calls; }});
  columns.push_back(seconds_of("expert_busy_seconds", kBusySeconds));
  add_cache_columns(columns, query.has_cache);
  columns.push_back(
      {"entropy", [&history](const HeatWindow& w) { return mean_balance(history, w).entropy; }});
  columns.push_back({"cv", [&history](const HeatWindow& w) { return mean_balance(history, w).variation; }});
  columns.push_back(
      {"hottest_share", [&history](const HeatWindow& w) { return mean_balance(history, w).hottest_share; }});
  columns.push_back(sampled("alarms", kOpenAlarms));
  if (!query.by_layer) return columns;
  columns.push_back({"entropy_by_layer", [&history](const HeatWindow& w) {
                       return by_layer(history, w, &LayerBalance::entropy);
                     }});
  columns.push_back({"cv_by_layer", [&history](const HeatWindow& w) {
                       return by_layer(history, w, &LayerBalance::variation);
                     }});
  return columns;
}

}  // namespace

Json series_json(const HeatView& view, const WindowFigureCounter& counter, const SeriesQuery& query) {
  Json json = {{"tier", kHeatTiers[query.tier].name},
               {"window_ms", kHeatTiers[query.tier].window_ms},
               {"layers", view.layers}};
  for (const SeriesColumn& column : all_columns(view, counter, query)) {
    Json values = Json::array();
    for (const HeatWindow& window : view.history.windows(query.tier)) {
      if (window.begin_ms >= query.since_ms) values.push_back(column.value(window));
    }
    json[column.name] = std::move(values);
  }
  return json;
}

}  // namespace soli::serve
