#pragma once

// Which experts were called when: windows of several widths, and a heat that decays. Memory is bounded
// whatever the uptime. No clock is read here: whoever counts says what time it is.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "ops/expert_meter.h"

namespace soli {

/// One width of windows.
struct HeatTier {
  const char* name;
  int64_t window_ms;
  int64_t max_windows;  // fewer where memory has no room for them
};
inline constexpr std::array<HeatTier, 4> kHeatTiers = {
    {{"1s", 1000, 120}, {"10s", 10'000, 180}, {"1m", 60'000, 240}, {"10m", 600'000, 144}}};

/// How the calls of one layer spread over its experts, as in observe/expert_shares.h. NaN without calls.
struct LayerBalance {
  float entropy = 0;  // normalised
  float variation = 0;
  float hottest_share = 0;
};

struct HeatWindow {
  int64_t begin_ms = 0;                    // a multiple of the width
  int64_t counted_ms = 0;                  // of its time
  bool complete = false;                   // nothing will be added
  int64_t n_calls = 0;                     // of all layers
  std::vector<uint32_t> calls = {};        // [layer][expert], at most 2^32 - 1; empty while there are none
  std::vector<double> figures = {};        // [n_figures], added up
  std::vector<LayerBalance> balance = {};  // [layer] of a complete window with calls; else empty
};

/// Calls over some windows.
struct HeatSum {
  int64_t n_windows = 0;
  int64_t begin_ms = 0;  // of the first one; 0 where there is none, as the end
  int64_t end_ms = 0;    // of the last one
  int64_t counted_ms = 0;
  std::vector<int64_t> calls = {};  // [layer][expert]
};

/// Owned by one thread, or behind a lock.
class HeatHistory {
 public:
  struct Options {
    int64_t n_layers = 0;   // with experts
    int64_t n_experts = 0;  // of each
    int64_t n_figures = 0;  // further numbers that add up over time, for whatever the caller counts
    int64_t max_bytes = 0;  // at least min_bytes()
    double half_life_seconds = 60;
    int64_t start_ms = 0;
  };
  /// Windows of each tier at least.
  static constexpr int64_t kMinWindows = 8;
  static int64_t min_bytes(const Options& options);

  explicit HeatHistory(const Options& options);

  /// Counts what has happened since the last call, or the start: the difference of `totals` [layer][expert],
  /// which only grow (one that has become less has begun anew at 0), and `amounts` [n_figures], which are
  /// differences already. All of it goes to the windows in which the middle of that time lies. `time_ms` is
  /// not before that of the last call.
  void add(int64_t time_ms, std::span<const ExpertWork> totals, std::span<const double> amounts);

  const Options& options() const { return options_; }
  /// Of the last add().
  int64_t time_ms() const { return time_ms_; }
  int64_t max_windows(size_t tier) const { return max_windows_[tier]; }
  /// The oldest first. The last one is not complete.
  const std::deque<HeatWindow>& windows(size_t tier) const { return windows_[tier]; }
  /// Of the windows of a tier that begin at `from_ms` or later and before `to_ms`.
  HeatSum sum(size_t tier, int64_t from_ms, int64_t to_ms) const;
  /// How a window stands, complete or not.
  LayerBalance balance_of(const HeatWindow& window, int64_t layer) const;

  /// [layer][expert]: since the start, as they were last counted.
  std::span<const ExpertWork> totals() const { return totals_; }
  /// [layer][expert]: calls, each worth 2^(-age / half-life), where all that one add() counts is as old as
  /// that call.
  std::span<const double> heat() const { return heat_; }
  /// The same for the time that experts were busy, in seconds.
  std::span<const double> busy_heat() const { return busy_heat_; }

  /// What it holds now.
  int64_t bytes() const;

 private:
  static int64_t window_bytes(const Options& options);
  static int64_t base_bytes(const Options& options);
  size_t n_cells() const { return heat_.size(); }
  void take_differences(std::span<const ExpertWork> totals, double decay);
  HeatWindow& window_at(size_t tier, int64_t time_ms);
  void add_calls(HeatWindow& window) const;
  LayerBalance balance_of_calls(std::span<const uint32_t> calls) const;

  const Options options_;
  int64_t time_ms_;
  std::array<int64_t, kHeatTiers.size()> max_windows_ = {};
  std::array<std::deque<HeatWindow>, kHeatTiers.size()> windows_;
  std::vector<ExpertWork> totals_;
  std::vector<double> heat_;
  std::vector<double> busy_heat_;
  std::vector<int64_t> new_calls_;  // of the add() at work
  int64_t n_new_calls_ = 0;
};

}  // namespace soli
