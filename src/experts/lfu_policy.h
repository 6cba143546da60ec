#pragma once

#include <string>
#include <vector>

#include "experts/cache_policy.h"
#include "experts/heat.h"
#include "experts/turns.h"
#include "experts/victims.h"

namespace soli {

/// Evicts what is called least often, by counts that halve every half-life: a short one comes near LRU, a
/// long one near plain counts (a family with one parameter, as LRFU: Lee et al. 2001).
///
/// From the rate r of an expert's calls per token follows when it is expected next, 1 / r tokens after its
/// layer's coming turn: so of two alike the one goes whose layer has its turn later.
class LfuPolicy final : public CachePolicy {
 public:
  /// Of kLfu: the best compromise over the traces of tests/experts/acceptance_test.cc.
  static constexpr double kHalfLifeTokens = 32;

  explicit LfuPolicy(const CacheShape& shape, double half_life_tokens = kHalfLifeTokens);

  std::string_view name() const override { return "lfu"; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;

  double half_life_tokens() const { return heat_.half_life_tokens(); }

 private:
  CacheShape shape_;
  Heat heat_;
  double calls_per_heat_;  // rate of calls that keeps up a heat of 1
  Turns turns_;
  Victims victims_;
};

}  // namespace soli
