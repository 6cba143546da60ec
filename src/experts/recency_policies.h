#pragma once

#include <vector>

#include "experts/cache_policy.h"
#include "experts/claims.h"
#include "experts/victims.h"

namespace soli {

/// Evicts what was used longest ago.
class LruPolicy final : public CachePolicy {
 public:
  explicit LruPolicy(const CacheShape& shape);

  std::string_view name() const override { return "lru"; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;

 private:
  CacheShape shape_;
  Claims claims_;
  Victims victims_;
  double n_visits_ = 0;
  std::vector<double> last_use_;  // [experts] number of the visit
};

/// Evicts what its layer did not use at its last turn, first where the layer's next turn is farthest, and of
/// these what was used longest ago. Layers take turns in a cycle, so the farthest is the one that was there
/// last; LRU evicts, on the contrary, from the layer that comes next.
class LeastStalePolicy final : public CachePolicy {
 public:
  explicit LeastStalePolicy(const CacheShape& shape);

  std::string_view name() const override { return "least-stale"; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;

 private:
  CacheShape shape_;
  Claims claims_;
  Victims victims_;
  int64_t layer_ = 0;              // of the present visit
  std::vector<double> n_turns_;    // [layers]
  std::vector<double> last_turn_;  // [experts] turn of its layer
};

}  // namespace soli
