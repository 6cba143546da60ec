#pragma once

#include <vector>

#include "experts/cache_policy.h"
#include "experts/turns.h"
#include "experts/victims.h"

namespace soli {

/// Gives each layer a share of the slots, and evicts from the layer that is most above its share what was
/// used longest ago. So a long prompt's visit takes slots from its own layer only.
///
/// Shares move a slot per step, from the layer that would lose the fewest hits by it to the one that would
/// gain the most. Both are measured: experts of a layer stand in the order of their last use, of which the
/// first `share` are there; hits just above that end are what a slot less would lose, calls just below it
/// (ghost hits) what a slot more would gain.
class SharesPolicy final : public CachePolicy {
 public:
  explicit SharesPolicy(const CacheShape& shape);

  std::string_view name() const override { return "shares"; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;

  /// Slots of each layer. Their sum is the number of slots, or of experts where there are fewer.
  const std::vector<int64_t>& shares() const { return shares_; }

 private:
  void count_places(const LayerVisit& visit);
  double calls_between(size_t layer, int64_t begin, int64_t end) const;
  void move_a_slot();
  void count_residents(std::span<const ExpertNumber> residents);
  int64_t layer_most_above() const;

  CacheShape shape_;
  Turns turns_;
  int64_t window_;                // places on each side of a layer's end that count
  std::vector<int64_t> shares_;   // [layers]
  std::vector<double> last_use_;  // [layers * experts] number of the visit; 0: never
  std::vector<float> calls_at_;   // [layers][experts] calls of whatever stood at a place, decayed
  double n_visits_ = 0;

  // Of the present visit:
  size_t layer_ = 0;
  int64_t n_experts_used_ = 0;
  bool counted_ = false;            // the two lists below
  std::vector<int64_t> evictable_;  // [layers] residents that may go
  std::vector<int64_t> above_;      // [layers] residents less the share, all that the visit uses being there
  int64_t victims_layer_ = -1;      // whose victims_ are
  Victims victims_;
};

}  // namespace soli
