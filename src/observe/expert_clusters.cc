#include "observe/expert_clusters.h"

#include <algorithm>
#include <numeric>

namespace soli {

std::vector<std::vector<int64_t>> expert_clusters(std::span<const ExpertPair> pairs, int64_t n_experts) {
  // Each expert points to a lower one of its component, and the lowest to itself.
  std::vector<int64_t> lower(static_cast<size_t>(n_experts));
  std::iota(lower.begin(), lower.end(), 0);
  const auto lowest = [&](int64_t expert) {
    while (lower[static_cast<size_t>(expert)] != expert) {
      int64_t& next = lower[static_cast<size_t>(expert)];
      expert = next = lower[static_cast<size_t>(next)];
    }
    return expert;
  };
  for (const ExpertPair& pair : pairs) {
    if (!(pair.lift >= kClusterLift)) continue;
    const int64_t a = lowest(pair.a);
    const int64_t b = lowest(pair.b);
    lower[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(n_experts));
  for (int64_t expert = 0; expert < n_experts; ++expert)
    members[static_cast<size_t>(lowest(expert))].push_back(expert);
  std::erase_if(members, [](const std::vector<int64_t>& cluster) { return cluster.size() < 2; });
  return members;
}

}  // namespace soli
