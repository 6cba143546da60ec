#include "model/routing_policy.h"

#include <bit>

#include "base/rng.h"

namespace soli {

uint64_t RoutingPolicy::hash() const {
  uint64_t h = hash_u64(static_cast<uint64_t>(experts_per_token));
  h = hash_u64(h ^ std::bit_cast<uint64_t>(relative_threshold));
  return hash_u64(h ^ static_cast<uint64_t>(k_min));
}

}  // namespace soli
