#pragma once

// Profiles of routings that are drawn at random or written down, without a model.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "observe/routing_profile.h"

namespace soli {

inline ProfileShape simulated_shape(int64_t n_experts, int64_t n_layers) {
  ProfileShape shape;
  for (int64_t layer = 0; layer < n_layers; ++layer) shape.layers.push_back(layer + 1);
  shape.n_experts = n_experts;
  return shape;
}

/// A profile of domains "a", "b", ... that have read nothing.
inline RoutingProfile simulated_profile(const ProfileShape& shape, size_t n_domains) {
  RoutingProfile profile;
  profile.model = "simulated";
  profile.shape = shape;
  for (size_t d = 0; d < n_domains; ++d)
    profile.domains.emplace_back(std::string(1, static_cast<char>('a' + d)), shape);
  return profile;
}

/// Adds one window in which every layer chooses these experts, with weights that fall from expert to expert.
inline void add_window(RoutingProfile& profile, size_t domain,
                       const std::vector<std::vector<int32_t>>& tokens, uint64_t key = 0) {
  RoutingWindow window(profile.shape, hash_u64(key * 1000 + domain));
  for (size_t position = 0; position < tokens.size(); ++position) {
    std::vector<ExpertCall> calls;
    for (const int32_t id : tokens[position])
      calls.push_back({id, 1.0F / static_cast<float>(calls.size() + 1)});
    for (size_t layer = 0; layer < profile.shape.layers.size(); ++layer)
      window.add(layer,
                 {.position = static_cast<int64_t>(position), .calls = calls, .gate_entropy_bits = 1.5});
  }
  std::move(window).merge_into(profile.domains[domain]);
}

/// `k` different experts of [first, first + n).
inline std::vector<int32_t> draw_experts(Rng& rng, int32_t first, int32_t n, size_t k) {
  std::vector<int32_t> ids;
  while (ids.size() < k) {
    const auto id = static_cast<int32_t>(rng.next_below(static_cast<uint64_t>(n))) + first;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

}  // namespace soli
