#include "experts/claims.h"

#include <algorithm>
#include <numeric>

namespace soli {

Claims::Claims(const CacheShape& shape)
    : share_(static_cast<size_t>(std::max<int64_t>(1, shape.n_slots / shape.n_layers))) {}

const std::vector<char>& Claims::of(const LayerVisit& visit) {
  const size_t n = visit.experts.size();
  const bool all = visit.n_tokens <= 1 || n <= share_;
  claims_.assign(n, all ? 1 : 0);
  if (all) return claims_;
  order_.resize(n);
  std::iota(order_.begin(), order_.end(), size_t{0});
  const auto middle = order_.begin() + static_cast<std::ptrdiff_t>(share_);
  std::nth_element(order_.begin(), middle, order_.end(), [&](size_t a, size_t b) {
    return visit.calls[a] != visit.calls[b] ? visit.calls[a] > visit.calls[b] : a < b;
  });
  std::for_each(order_.begin(), middle, [&](size_t i) { claims_[i] = 1; });
  return claims_;
}

}  // namespace soli
