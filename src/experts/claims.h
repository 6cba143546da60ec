#pragma once

#include <cstdint>
#include <vector>

#include "experts/cache_policy.h"

namespace soli {

/// Which experts of a visit have a claim to stay after it. All of them, where it has one row, or no more
/// experts than the fair share of a layer (slots / layers). A long prompt touches nearly all experts of every
/// layer: if all of them counted as used just now, each layer's visit would drive out what the next layers
/// have. Then only the most called ones do, as many as the fair share.
class Claims {
 public:
  explicit Claims(const CacheShape& shape);

  /// Result: [visit.experts], valid until the next call.
  const std::vector<char>& of(const LayerVisit& visit);

 private:
  size_t share_;
  std::vector<size_t> order_;
  std::vector<char> claims_;
};

}  // namespace soli
