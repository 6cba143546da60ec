#include "observe/heat_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "observe/expert_shares.h"

namespace soli {
namespace {

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

int64_t all_windows() {
  int64_t sum = 0;
  for (const HeatTier& tier : kHeatTiers) sum += tier.max_windows;
  return sum;
}

/// A counter that has become less has begun anew.
int64_t difference(int64_t now, int64_t before) { return now >= before ? now - before : now; }

template <typename T>
int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(T));
}

}  // namespace

int64_t HeatHistory::window_bytes(const Options& options) {
  return static_cast<int64_t>(sizeof(HeatWindow)) + options.n_layers * options.n_experts * int64_t{4} +
         options.n_figures * int64_t{8} + options.n_layers * static_cast<int64_t>(sizeof(LayerBalance));
}

int64_t HeatHistory::base_bytes(const Options& options) {
  constexpr int64_t kCellBytes = sizeof(ExpertWork) + 2 * sizeof(double) + sizeof(int64_t);
  return options.n_layers * options.n_experts * kCellBytes;
}

int64_t HeatHistory::min_bytes(const Options& options) {
  return base_bytes(options) + static_cast<int64_t>(kHeatTiers.size()) * kMinWindows * window_bytes(options);
}

HeatHistory::HeatHistory(const Options& options)
    : options_(options),
      time_ms_(options.start_ms),
      totals_(static_cast<size_t>(options.n_layers * options.n_experts)),
      heat_(totals_.size()),
      busy_heat_(totals_.size()),
      new_calls_(totals_.size()) {
  SOLI_CHECK(options.max_bytes >= min_bytes(options), "{} bytes of {}", options.max_bytes,
             min_bytes(options));
  SOLI_CHECK(options.half_life_seconds > 0);
  const int64_t n_room = (options.max_bytes - base_bytes(options)) / window_bytes(options);
  const int64_t n_spare = n_room - static_cast<int64_t>(kHeatTiers.size()) * kMinWindows;
  const int64_t n_wanted = all_windows() - static_cast<int64_t>(kHeatTiers.size()) * kMinWindows;
  for (size_t t = 0; t < kHeatTiers.size(); ++t) {
    const int64_t more = kHeatTiers[t].max_windows - kMinWindows;
    max_windows_[t] = kMinWindows + (n_spare >= n_wanted ? more : more * n_spare / n_wanted);
  }
}

void HeatHistory::take_differences(std::span<const ExpertWork> totals, double decay) {
  n_new_calls_ = 0;
  for (size_t c = 0; c < n_cells(); ++c) {
    new_calls_[c] = difference(totals[c].calls, totals_[c].calls);
    n_new_calls_ += new_calls_[c];
    const auto busy = static_cast<double>(difference(totals[c].busy_ns, totals_[c].busy_ns)) * 1e-9;
    heat_[c] = heat_[c] * decay + static_cast<double>(new_calls_[c]);
    busy_heat_[c] = busy_heat_[c] * decay + busy;
    totals_[c] = totals[c];
  }
}

void HeatHistory::add(int64_t time_ms, std::span<const ExpertWork> totals, std::span<const double> amounts) {
  SOLI_CHECK(totals.size() == n_cells() && static_cast<int64_t>(amounts.size()) == options_.n_figures);
  SOLI_CHECK(time_ms >= time_ms_, "time {} after {}", time_ms, time_ms_);
  const int64_t passed_ms = time_ms - time_ms_;
  const int64_t middle_ms = time_ms_ + passed_ms / 2;
  time_ms_ = time_ms;
  take_differences(totals, std::exp2(-static_cast<double>(passed_ms) * 1e-3 / options_.half_life_seconds));
  for (size_t tier = 0; tier < kHeatTiers.size(); ++tier) {
    HeatWindow& window = window_at(tier, middle_ms);
    window.counted_ms += passed_ms;
    for (size_t i = 0; i < amounts.size(); ++i) window.figures[i] += amounts[i];
    if (n_new_calls_ > 0) add_calls(window);
  }
}

/// The last window, or a new one after it.
HeatWindow& HeatHistory::window_at(size_t tier, int64_t time_ms) {
  std::deque<HeatWindow>& windows = windows_[tier];
  const int64_t width = kHeatTiers[tier].window_ms;
  const int64_t begin = time_ms / width * width;
  if (!windows.empty() && windows.back().begin_ms >= begin) return windows.back();
  if (!windows.empty()) {
    HeatWindow& last = windows.back();
    last.complete = true;
    for (int64_t layer = 0; last.n_calls > 0 && layer < options_.n_layers; ++layer) {
      if (last.balance.empty()) last.balance.reserve(static_cast<size_t>(options_.n_layers));
      const auto n_experts = static_cast<size_t>(options_.n_experts);
      last.balance.push_back(
          balance_of_calls(std::span(last.calls).subspan(static_cast<size_t>(layer) * n_experts, n_experts)));
    }
  }
  if (static_cast<int64_t>(windows.size()) == max_windows_[tier]) windows.pop_front();
  windows.push_back(
      {.begin_ms = begin, .figures = std::vector<double>(static_cast<size_t>(options_.n_figures))});
  return windows.back();
}

void HeatHistory::add_calls(HeatWindow& window) const {
  window.calls.resize(n_cells());
  window.n_calls += n_new_calls_;
  for (size_t c = 0; c < n_cells(); ++c) {
    const int64_t sum = int64_t{window.calls[c]} + new_calls_[c];
    window.calls[c] = static_cast<uint32_t>(std::min<int64_t>(sum, UINT32_MAX));
  }
}

LayerBalance HeatHistory::balance_of_calls(std::span<const uint32_t> calls) const {
  const std::vector<int64_t> counts(calls.begin(), calls.end());
  const ExpertShares shares = expert_shares(counts);
  if (shares.n_calls == 0) return {kNothing, kNothing, kNothing};
  return {static_cast<float>(shares.entropy_normalised), static_cast<float>(shares.variation),
          static_cast<float>(shares.hottest_share)};
}

LayerBalance HeatHistory::balance_of(const HeatWindow& window, int64_t layer) const {
  if (!window.balance.empty()) return window.balance[static_cast<size_t>(layer)];
  if (window.calls.empty()) return {kNothing, kNothing, kNothing};
  const auto n_experts = static_cast<size_t>(options_.n_experts);
  return balance_of_calls(std::span(window.calls).subspan(static_cast<size_t>(layer) * n_experts, n_experts));
}

HeatSum HeatHistory::sum(size_t tier, int64_t from_ms, int64_t to_ms) const {
  HeatSum sum{.calls = std::vector<int64_t>(n_cells())};
  for (const HeatWindow& window : windows_[tier]) {
    if (window.begin_ms < from_ms || window.begin_ms >= to_ms) continue;
    if (sum.n_windows++ == 0) sum.begin_ms = window.begin_ms;
    sum.end_ms = window.begin_ms + kHeatTiers[tier].window_ms;
    sum.counted_ms += window.counted_ms;
    for (size_t c = 0; c < window.calls.size(); ++c) sum.calls[c] += window.calls[c];
  }
  return sum;
}

int64_t HeatHistory::bytes() const {
  int64_t bytes = bytes_of(totals_) + bytes_of(heat_) + bytes_of(busy_heat_) + bytes_of(new_calls_);
  for (const std::deque<HeatWindow>& windows : windows_) {
    for (const HeatWindow& window : windows) {
      bytes += static_cast<int64_t>(sizeof(HeatWindow)) + bytes_of(window.calls) + bytes_of(window.figures) +
               bytes_of(window.balance);
    }
  }
  return bytes;
}

}  // namespace soli
