#pragma once

#include "experts/access_trace.h"
#include "experts/cache_simulator.h"

namespace soli {

/// Hits of the best eviction there is (MIN: Belady 1966), which knows the future: it evicts what is needed
/// next latest. Counted as CacheSimulator counts. A visit that needs more experts than there are slots may
/// leave any of its experts, which no policy is quite free to do, so that this is a bound there too.
CacheCounts belady_counts(const AccessTrace& trace, int64_t n_slots);

/// Hits of the best set of experts that never changes, chosen in hindsight and there from the start.
CacheCounts best_static_counts(const AccessTrace& trace, int64_t n_slots);

}  // namespace soli
