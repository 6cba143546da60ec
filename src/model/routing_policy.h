#pragma once

#include <cstdint>

namespace soli {

/// How a request steers its own routing. The default is the model's own rule; everything else is lossy and
/// says so.
struct RoutingPolicy {
  int64_t experts_per_token = 0;  // 0: the model's k; else at most this many
  double relative_threshold =
      0;  // beyond the best k_min, keep expert e only if p_e > threshold * p_max; 0 keeps all k
  int64_t k_min = 1;

  bool operator==(const RoutingPolicy&) const = default;
  bool is_exact() const { return *this == RoutingPolicy{}; }
  /// Part of the prefix cache's key: keys and values depend on the routing of earlier layers.
  uint64_t hash() const;
};

}  // namespace soli
