#pragma once

#include <cstdint>
#include <vector>

namespace soli {

/// What an expert memory did. Counted; times are measured. An expert that a step calls counts once per step.
struct CacheCounters {
  int64_t hits = 0;               // in memory when its layer's turn came, prefetched ones included
  int64_t prefetch_hits = 0;      // of these, those that a prefetch had brought since the layer's last turn
  int64_t late_prefetches = 0;    // being prefetched when the turn came: waited for
  int64_t demand_misses = 0;      // read only then
  int64_t wasted_prefetches = 0;  // brought, and not called at the turn that they were brought for
  int64_t demanded_bytes = 0;     // read for experts that a step called
  int64_t wasted_bytes = 0;       // read for those that it did not
  int64_t promoted_bytes = 0;     // read for experts that take the place of their twins from then on
  int64_t wait_ns = 0;            // in which the step had nothing to compute for want of experts
  int64_t twin_uses = 0;          // of all of these, those that a twin of lower precision stood in for
  // Of the prediction that prefetching goes by, also where it was not acted upon.
  int64_t predicted = 0;         // experts that were predicted while not in memory
  int64_t predicted_called = 0;  // of these, those that the step did call

  int64_t calls() const { return hits + late_prefetches + demand_misses; }
  int64_t bytes_read() const { return demanded_bytes + wasted_bytes + promoted_bytes; }
  CacheCounters& operator+=(const CacheCounters& other);
  CacheCounters& operator-=(const CacheCounters& other);
};
inline CacheCounters operator-(CacheCounters a, const CacheCounters& b) { return a -= b; }

/// The counters of each layer (of all layers; those without experts stay at zero).
using CacheCountersByLayer = std::vector<CacheCounters>;

CacheCounters sum(const CacheCountersByLayer& layers);

/// part / whole; 0 of nothing.
double share(int64_t part, int64_t whole);

}  // namespace soli
