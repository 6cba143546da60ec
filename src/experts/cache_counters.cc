#include "experts/cache_counters.h"

#include <iterator>

namespace soli {

namespace {

constexpr int64_t CacheCounters::*kMembers[] = {
    &CacheCounters::hits,          &CacheCounters::prefetch_hits,     &CacheCounters::late_prefetches,
    &CacheCounters::demand_misses, &CacheCounters::wasted_prefetches, &CacheCounters::demanded_bytes,
    &CacheCounters::wasted_bytes,  &CacheCounters::promoted_bytes,    &CacheCounters::wait_ns,
    &CacheCounters::twin_uses,     &CacheCounters::predicted,         &CacheCounters::predicted_called};
static_assert(sizeof(CacheCounters) == std::size(kMembers) * sizeof(int64_t));

}  // namespace

CacheCounters& CacheCounters::operator+=(const CacheCounters& other) {
  for (int64_t CacheCounters::*member : kMembers) this->*member += other.*member;
  return *this;
}

CacheCounters& CacheCounters::operator-=(const CacheCounters& other) {
  for (int64_t CacheCounters::*member : kMembers) this->*member -= other.*member;
  return *this;
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

CacheCounters sum(const CacheCountersByLayer& layers) {
  CacheCounters total;
  for (const CacheCounters& layer : layers) total += layer;
  return total;
}

}  // namespace soli
