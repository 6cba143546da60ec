#include "serve/dashboard/heat_json.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "observe/expert_shares.h"

namespace soli::serve {
namespace {

using openai::Json;

constexpr size_t kMaxOpenShown = 256;

double milliseconds_as_seconds(int64_t ms) { return static_cast<double>(ms) * 1e-3; }

template <typename T>
std::span<const T> layer_of(std::span<const T> cells, size_t layer, int64_t n_experts) {
  const auto n = static_cast<size_t>(n_experts);
  return cells.subspan(layer * n, n);
}

Json layer_heat(int64_t layer, std::span<const int64_t> calls) {
  const ExpertShares shares = expert_shares(calls);
  const bool is_called = shares.n_calls > 0;
  return {{"layer", layer},
          {"n_calls", shares.n_calls},
          {"entropy", is_called ? Json(shares.entropy_normalised) : Json()},
          {"cv", is_called ? Json(shares.variation) : Json()},
          {"hottest_expert", is_called ? Json(shares.hottest_expert) : Json()},
          {"hottest_share", is_called ? Json(shares.hottest_share) : Json()},
          {"never_called", static_cast<int64_t>(calls.size()) - shares.distinct},
          {"calls", calls}};
}

Json layer_experts(const HeatView& view, size_t index) {
  const HeatHistory& history = view.history;
  const int64_t n_experts = history.options().n_experts;
  const auto totals = layer_of(history.totals(), index, n_experts);
  const auto heat = layer_of(history.heat(), index, n_experts);
  const auto busy = layer_of(history.busy_heat(), index, n_experts);
  int64_t n_calls = 0;
  for (const ExpertWork& work : totals) n_calls += work.calls;
  const double all_heat = std::accumulate(heat.begin(), heat.end(), 0.0);
  Json calls = Json::array(), seconds = Json::array(), share = Json::array(), shares_of_late = Json::array(),
       call_seconds = Json::array(), hot = Json::array();
  for (size_t e = 0; e < totals.size(); ++e) {
    calls.push_back(totals[e].calls);
    seconds.push_back(static_cast<double>(totals[e].busy_ns) * 1e-9);
    share.push_back(n_calls > 0 ? static_cast<double>(totals[e].calls) / static_cast<double>(n_calls) : 0.0);
    shares_of_late.push_back(all_heat > 0 ? heat[e] / all_heat : 0.0);
    // What is left of calls long ago is less than one, and its quotient without meaning.
    call_seconds.push_back(heat[e] >= 1e-3 ? Json(busy[e] / heat[e]) : Json());
    if (view.alarms != nullptr && view.alarms->is_open(static_cast<int64_t>(index), static_cast<int64_t>(e)))
      hot.push_back(e);
  }
  return {{"layer", view.layers[index]},
          {"n_calls", n_calls},
          {"decayed_calls", all_heat},
          {"calls", std::move(calls)},
          {"busy_seconds", std::move(seconds)},
          {"share", std::move(share)},
          {"heat", heat},
          {"decayed_share", std::move(shares_of_late)},
          {"call_seconds", std::move(call_seconds)},
          {"hot", std::move(hot)}};
}

Json alarm_json(const HeatView& view, const HeatAlarm& alarm) {
  return {{"layer", view.layers[static_cast<size_t>(alarm.layer)]},
          {"expert", alarm.expert},
          {"since", alarm.since_ms},
          {"until", alarm.until_ms ? Json(*alarm.until_ms) : Json()},
          {"share", alarm.share},
          {"peak_share", alarm.peak_share},
          {"fair_share", view.alarms->fair_share()}};
}

}  // namespace

Json heat_json(const HeatView& view, size_t tier, int64_t from_ms, int64_t to_ms) {
  const HeatSum sum = view.history.sum(tier, from_ms, to_ms);
  const bool is_empty = sum.n_windows == 0;
  Json layers = Json::array();
  for (size_t i = 0; i < view.layers.size(); ++i) {
    layers.push_back(layer_heat(
        view.layers[i], layer_of(std::span<const int64_t>(sum.calls), i, view.history.options().n_experts)));
  }
  return {{"tier", kHeatTiers[tier].name},
          {"window_ms", kHeatTiers[tier].window_ms},
          {"windows", sum.n_windows},
          {"from", is_empty ? Json() : Json(sum.begin_ms)},
          {"to", is_empty ? Json() : Json(sum.end_ms)},
          {"seconds", milliseconds_as_seconds(sum.counted_ms)},
          {"n_calls", std::accumulate(sum.calls.begin(), sum.calls.end(), int64_t{0})},
          {"layers", std::move(layers)}};
}

Json experts_json(const HeatView& view) {
  Json layers = Json::array();
  for (size_t i = 0; i < view.layers.size(); ++i) layers.push_back(layer_experts(view, i));
  return {{"half_life_seconds", view.history.options().half_life_seconds}, {"layers", std::move(layers)}};
}

Json alarms_json(const HeatView& view) {
  const HeatAlarms* const alarms = view.alarms;
  Json open = Json::array();
  Json past = Json::array();
  if (alarms != nullptr) {
    const std::vector<HeatAlarm> now = alarms->open();
    for (size_t i = 0; i < std::min(now.size(), kMaxOpenShown); ++i) open.push_back(alarm_json(view, now[i]));
    for (const HeatAlarm& alarm : alarms->past()) past.push_back(alarm_json(view, alarm));
  }
  return {{"raise_factor", alarms != nullptr ? Json(alarms->raise_factor()) : Json()},
          {"clear_factor", alarms != nullptr ? Json(alarms->clear_factor()) : Json()},
          {"min_calls", alarms != nullptr ? Json(alarms->min_calls()) : Json()},
          {"n_open", alarms != nullptr ? alarms->n_open() : 0},
          {"n_raised", alarms != nullptr ? alarms->n_raised() : 0},
          {"open", std::move(open)},
          {"past", std::move(past)}};
}

Json tiers_json(const HeatHistory& history) {
  Json tiers = Json::array();
  for (size_t t = 0; t < kHeatTiers.size(); ++t) {
    const std::deque<HeatWindow>& windows = history.windows(t);
    const int64_t width = kHeatTiers[t].window_ms;
    tiers.push_back({{"name", kHeatTiers[t].name},
                     {"window_ms", width},
                     {"max_windows", history.max_windows(t)},
                     {"windows", windows.size()},
                     {"begin", windows.empty() ? Json() : Json(windows.front().begin_ms)},
                     {"end", windows.empty() ? Json() : Json(windows.back().begin_ms + width)}});
  }
  return tiers;
}

}  // namespace soli::serve
