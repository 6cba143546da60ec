#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/memory_need.h"
#include "cli/memory_options.h"
#include "experts/expert_source.h"
#include "io/disk_probe.h"

namespace soli::cli {

/// Of a plan in which not all experts fit into memory.
struct TiersPlan {
  int64_t fixed_bytes = 0;   // everything but the slots
  int64_t slot_bytes = 0;    // what is left for them
  int64_t n_slots = 0;       // for experts
  int64_t n_twin_slots = 0;  // for twins, beside them
  int64_t n_experts = 0;     // of the model
  int io_depth = 0;
  std::optional<DiskFigures> disk;  // unless the depth was given, or the file is too small
  /// Expected, for a router that calls all experts equally often: what a token reads.
  double uniform_bytes_per_token = 0;
};

/// What a process will do with its memory. Made before any weight is read.
struct MemoryPlan {
  MemoryLimit limit;
  MemoryNeed need;                 // with all experts in memory
  int64_t chunk_rows = 0;          // of a step
  std::optional<TiersPlan> tiers;  // where not all of them fit

  int64_t planned_bytes() const;
};

/// Plans for `n_positions` of keys and values. Where experts do not fit, steps become longer than
/// engine.chunk_rows for prompts of `longest_prompt` tokens, as memory allows: a chunk reads each expert
/// once. Measures the disk where that is asked for. `twins` may be null. Fails with kLimit, naming the least
/// that would fit, or as ExpertSource::create() does.
Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelFile* twins, Runtime& runtime,
                               const EngineOptions& engine, const MemoryOptions& options,
                               const MemoryLimit& limit, int64_t n_positions, int64_t longest_prompt);

/// One or two lines for people.
std::string describe(const MemoryPlan& plan, const MemoryOptions& options);
nlohmann::ordered_json to_json(const MemoryPlan& plan, const MemoryOptions& options);

}  // namespace soli::cli
