#pragma once

// How many of the ranked experts a row keeps, and where its calls go when an expert has no room left.

#include <cstdint>
#include <span>

#include "model/batch.h"

namespace soli {

/// Calls that found their expert's capacity used up.
struct OverflowCounts {
  int64_t n_moved = 0;    // went to the next best expert
  int64_t n_dropped = 0;  // went nowhere
};

/// What decides how many experts a row keeps.
struct ChoiceLimits {
  int64_t k = 0;
  int64_t k_min = 1;
  double relative_threshold = 0;
  double cumulative_probability = 1;
  int64_t n_forced = 0;  // at the front, and kept in any case; k_min is no less
};

/// Of the best experts of a row, `order`, best first, those that the limits let pass: returns their number.
/// They stay in their order, and those that are passed over follow them. `scores` [n_experts].
int64_t apply_limits(const ChoiceLimits& limits, std::span<const float> scores, std::span<int32_t> order);

/// The room that experts have for one row: an expert is called at most LayerSteering::capacity times in the
/// window of consecutive positions of a sequence that the row's position lies in. Reads what the positions
/// before it have called from the row's steering state, and writes its own choice there.
class CapacityWindow {
 public:
  /// `calls` [n_experts] is room for the counts.
  CapacityWindow(const Steering& steering, const LayerSteering& layer, const BatchRow& row,
                 std::span<int32_t> calls);

  /// Puts the next best experts in the place of those without room, or nobody: returns how many are kept.
  /// `order` is best first, of which the first `kept` are chosen, the first `n_forced` of them in any case.
  int64_t apply(int64_t n_forced, int64_t kept, std::span<int32_t> order, OverflowCounts* counts) const;
  /// Writes down the row's own choice.
  void record(std::span<const int32_t> ids) const;

 private:
  uint32_t* chosen(int64_t position) const {
    return steering_.layout().chosen(row_.states, position, layer_.moe_layer);
  }
  void add(const uint32_t* words);
  bool has_room(int32_t expert) const { return calls_[static_cast<size_t>(expert)] < layer_.capacity; }

  const Steering& steering_;
  const LayerSteering& layer_;
  const BatchRow& row_;
  std::span<int32_t> calls_;
};

}  // namespace soli
