#pragma once

#include <vector>

#include "experts/cache_policy.h"
#include "experts/claims.h"
#include "experts/turns.h"
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

/// Evicts what its layer left unused for most turns, and so last what it used at its last turn; of two equal
/// ones that whose layer has its next turn farthest. LRU looks at the same ages but counts them in visits of
/// any layer, and so evicts first from the layer whose turn comes next. (SpecMD's order, the farthest turn
/// first and age among equals, would let each layer evict from itself alone, and so never even out what one
/// long prompt has left uneven.)
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
  Turns turns_;
  std::vector<double> n_turns_;    // [layers]
  std::vector<double> last_turn_;  // [experts] turn of its layer
};

}  // namespace soli
