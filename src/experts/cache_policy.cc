#include "experts/cache_policy.h"

#include "base/check.h"
#include "experts/auto_policy.h"
#include "experts/lfu_policy.h"
#include "experts/recency_policies.h"
#include "experts/shares_policy.h"

namespace soli {

std::unique_ptr<CachePolicy> make_cache_policy(CachePolicyKind kind, const CacheShape& shape) {
  SOLI_CHECK(shape.n_layers > 0 && shape.n_experts > 0 && shape.n_slots > 0,
             "{} layers, {} experts, {} slots", shape.n_layers, shape.n_experts, shape.n_slots);
  switch (kind) {
    case CachePolicyKind::kAuto:
      return std::make_unique<AutoPolicy>(shape);
    case CachePolicyKind::kLru:
      return std::make_unique<LruPolicy>(shape);
    case CachePolicyKind::kLfu:
      return std::make_unique<LfuPolicy>(shape);
    case CachePolicyKind::kLeastStale:
      return std::make_unique<LeastStalePolicy>(shape);
    case CachePolicyKind::kShares:
      return std::make_unique<SharesPolicy>(shape);
  }
  SOLI_CHECK(false, "policy {}", static_cast<int>(kind));
  return nullptr;
}

}  // namespace soli
