#include "experts/cache_policy.h"

#include "base/check.h"
#include "experts/auto_policy.h"
#include "experts/lfu_policy.h"
#include "experts/recency_policies.h"
#include "experts/shares_policy.h"

namespace soli {
namespace {

// Some hundreds of tokens are a topic's worth.
constexpr double kLfuHalfLifeTokens = 256;

}  // namespace

std::unique_ptr<CachePolicy> make_cache_policy(CachePolicyKind kind, const CacheShape& shape) {
  switch (kind) {
    case CachePolicyKind::kAuto:
      return std::make_unique<AutoPolicy>(shape);
    case CachePolicyKind::kLru:
      return std::make_unique<LruPolicy>(shape);
    case CachePolicyKind::kLfu:
      return std::make_unique<LfuPolicy>(
          shape, LfuPolicy::Options{.half_life_tokens = kLfuHalfLifeTokens, .turns = true});
    case CachePolicyKind::kLeastStale:
      return std::make_unique<LeastStalePolicy>(shape);
    case CachePolicyKind::kShares:
      return std::make_unique<SharesPolicy>(shape);
  }
  SOLI_CHECK(false, "policy {}", static_cast<int>(kind));
}

}  // namespace soli
