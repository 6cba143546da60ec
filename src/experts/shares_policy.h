#pragma once

#include <vector>

#include "experts/cache_policy.h"
#include "experts/victims.h"

namespace soli {

/// Gives each layer a share of the slots and evicts, from the layer that has most above its share, what was
/// used longest ago. Shares move a slot at a time, from the layer that would lose fewest hits by one slot
/// less to the layer that would gain most by one more. Both are measured: hits at the end of a layer's order
/// of recency, and calls of experts that lie just below that end (ghost hits).
class SharesPolicy final : public CachePolicy {
 public:
  explicit SharesPolicy(const CacheShape& shape);

  std::string_view name() const override { return "shares"; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;

  /// Slots of each layer; their sum is the number of slots, or of experts where that is less.
  const std::vector<int64_t>& shares() const { return shares_; }

 private:
  void measure(const LayerVisit& visit);
  double calls_between(int64_t layer, int64_t begin, int64_t end) const;
  void move_shares();
  void count_residents(std::span<const ExpertNumber> residents);

  CacheShape shape_;
  int64_t window_;                // experts on each side of a layer's end that are counted
  std::vector<int64_t> shares_;   // [layers]
  std::vector<float> calls_at_;   // [layers][experts] calls of the expert at a place in the order, decayed
  std::vector<double> last_use_;  // [layers * experts]; 0: never
  double n_visits_ = 0;

  // Of the present visit:
  LayerVisit visit_;  // its spans are not kept
  int64_t n_visited_ = 0;
  bool counted_ = false;
  std::vector<int64_t> evictable_;  // [layers]
  std::vector<int64_t> above_;      // [layers] residents above the share, with all that the visit needs
  int64_t victims_layer_ = -1;
  Victims victims_;
};

}  // namespace soli
