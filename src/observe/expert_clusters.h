#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace soli {

/// Two experts that were chosen for the same token.
struct ExpertPair {
  int64_t a = 0;
  int64_t b = 0;
  int64_t n_tokens = 0;
  double lift = 0;  // share of tokens that chose both / what it were if they chose independently
};

/// Pairs with such a lift belong together: chosen twice as often as if independent.
inline constexpr double kClusterLift = 2;

/// Experts that pairs of kClusterLift or more join, directly or over others: the connected components of two
/// and more experts, each ascending, in order of their first. Of experts 0 to n_experts - 1.
std::vector<std::vector<int64_t>> expert_clusters(std::span<const ExpertPair> pairs, int64_t n_experts);

}  // namespace soli
