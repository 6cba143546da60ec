#include "observe/heat_alarms.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace soli {
namespace {

double reachable_factor(const HeatAlarms::Options& options) {
  SOLI_CHECK(options.n_experts > 0 && options.experts_per_token > 0 && options.factor > 1);
  const double most = static_cast<double>(options.n_experts) / static_cast<double>(options.experts_per_token);
  return std::min(options.factor, (1 + most) / 2);
}

}  // namespace

HeatAlarms::HeatAlarms(const Options& options)
    : options_(options), raise_factor_(reachable_factor(options)) {}

std::vector<HeatAlarm> HeatAlarms::update(int64_t time_ms, std::span<const double> heat) {
  SOLI_CHECK(static_cast<int64_t>(heat.size()) == options_.n_layers * options_.n_experts);
  std::vector<HeatAlarm> changes;
  // Where every token calls every expert, none can be hot.
  if (options_.experts_per_token >= options_.n_experts) return changes;
  for (int64_t layer = 0; layer < options_.n_layers; ++layer) {
    update_layer(time_ms, layer,
                 heat.subspan(static_cast<size_t>(layer * options_.n_experts),
                              static_cast<size_t>(options_.n_experts)),
                 changes);
  }
  return changes;
}

void HeatAlarms::update_layer(int64_t time_ms, int64_t layer, std::span<const double> heat,
                              std::vector<HeatAlarm>& changes) {
  const double sum = std::accumulate(heat.begin(), heat.end(), 0.0);
  for (int64_t expert = 0; expert < options_.n_experts; ++expert) {
    const double share = sum > 0 ? heat[static_cast<size_t>(expert)] / sum : 0;
    const int64_t cell = layer * options_.n_experts + expert;
    const auto found = open_.find(cell);
    if (found == open_.end()) {
      if (sum < min_calls() || share < raise_factor() * fair_share()) continue;
      ++n_raised_;
      changes.push_back(
          open_[cell] = {
              .layer = layer, .expert = expert, .since_ms = time_ms, .share = share, .peak_share = share});
      continue;
    }
    HeatAlarm& alarm = found->second;
    alarm.share = share;
    alarm.peak_share = std::max(alarm.peak_share, share);
    if (share >= clear_factor() * fair_share() && sum >= min_calls() / 8) continue;
    alarm.until_ms = time_ms;
    changes.push_back(alarm);
    past_.push_front(alarm);
    if (past_.size() > kMaxPast) past_.pop_back();
    open_.erase(found);
  }
}

std::vector<HeatAlarm> HeatAlarms::open() const {
  std::vector<HeatAlarm> alarms;
  for (const auto& [cell, alarm] : open_) alarms.push_back(alarm);
  std::stable_sort(alarms.begin(), alarms.end(),
                   [](const HeatAlarm& a, const HeatAlarm& b) { return a.share > b.share; });
  return alarms;
}

}  // namespace soli
