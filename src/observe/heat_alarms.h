#pragma once

// Experts that have far more than their share of the calls of late. No clock is read here.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace soli {

struct HeatAlarm {
  int64_t layer = 0;  // among those with experts
  int64_t expert = 0;
  int64_t since_ms = 0;
  std::optional<int64_t> until_ms = {};  // absent: it is open
  double share = 0;                      // of the layer's heat; of an alarm that is over: when it ended
  double peak_share = 0;
};

/// Alarms with hysteresis, on the decayed shares of HeatHistory::heat(). One opens where an expert's share
/// reaches raise_factor() times the fair share 1 / n_experts while its layer has a heat of min_calls() at
/// least. It closes where the share falls below clear_factor() times that, or the layer's heat below an
/// eighth of min_calls(), after some half-lives without a call.
class HeatAlarms {
 public:
  struct Options {
    int64_t n_layers = 0;
    int64_t n_experts = 0;
    int64_t experts_per_token = 0;
    double factor = 4;  // above 1
  };
  static constexpr size_t kMaxPast = 64;

  explicit HeatAlarms(const Options& options);

  /// A token calls an expert at most once, so no share goes beyond n_experts / experts_per_token times the
  /// fair one: the factor that was asked for, but at most halfway between 1 and that.
  double raise_factor() const { return raise_factor_; }
  double clear_factor() const { return 1 + (raise_factor_ - 1) / 3; }
  double min_calls() const { return 20 * static_cast<double>(options_.n_experts); }
  double fair_share() const { return 1 / static_cast<double>(options_.n_experts); }

  /// Looks at a heat [layer][expert]. What has opened or closed, in that order of layers and experts.
  std::vector<HeatAlarm> update(int64_t time_ms, std::span<const double> heat);

  /// The hottest first; at most as many as clear_factor() leaves room for in a layer.
  std::vector<HeatAlarm> open() const;
  int64_t n_open() const { return static_cast<int64_t>(open_.size()); }
  bool is_open(int64_t layer, int64_t expert) const {
    return open_.contains(layer * options_.n_experts + expert);
  }
  /// The last that closed, the latest first; kMaxPast at most.
  const std::deque<HeatAlarm>& past() const { return past_; }
  /// That were ever raised.
  int64_t n_raised() const { return n_raised_; }

 private:
  void update_layer(int64_t time_ms, int64_t layer, std::span<const double> heat,
                    std::vector<HeatAlarm>& changes);

  const Options options_;
  const double raise_factor_;
  std::map<int64_t, HeatAlarm> open_;  // by layer * n_experts + expert
  std::deque<HeatAlarm> past_;
  int64_t n_raised_ = 0;
};

}  // namespace soli
