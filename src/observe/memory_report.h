#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experts/access_trace.h"
#include "experts/tiered_store.h"

namespace soli {

/// What an expert memory did in a run, and how good that was. Counted or measured, but for the two hit rates
/// in hindsight, which are computed from the recorded trace.
struct MemoryReport {
  int64_t n_slots = 0;  // those for twins included
  int64_t n_experts = 0;
  int64_t n_tokens = 0;  // that went through the model
  CacheCountersByLayer layers;
  CacheCounters total;
  std::string policy;         // asked for
  std::string ruling_policy;  // the one that it follows at the end
  struct Candidate {
    std::string name;
    double hit_rate;
  };
  std::vector<Candidate> candidates;  // of auto: what each would have had lately, on a sample of the layers
  double prefetch_precision = 0;      // share of the predictions that were right, of late
  int64_t prefetch_allowance = 0;     // experts read ahead per turn at present
  double disk_seconds = 0;            // in which reads were in flight
  std::optional<double> disk_bytes_per_s = {};  // what the disk gave to random reads before, if measured
  std::optional<double> belady_hit_rate = {};   // of a cache that knows the future, from an empty start
  std::optional<double> static_hit_rate = {};   // of the best set of experts that never changes
  int64_t n_visits_dropped = 0;                 // of the trace, which was full: the two concern the rest
  std::optional<double> moved_share = {};       // of the calls, where a CacheAwareRouter moves some

  double hit_rate() const;
  double achieved_bytes_per_s() const {
    return disk_seconds > 0 ? static_cast<double>(total.bytes_read()) / disk_seconds : 0;
  }
};

/// `trace`: what the store has recorded, or null.
MemoryReport make_memory_report(const TieredExpertStore& store, const AccessTrace* trace, int64_t n_tokens,
                                std::optional<double> disk_bytes_per_s);

std::string render_text(const MemoryReport& report);
nlohmann::ordered_json to_json(const MemoryReport& report);

}  // namespace soli
