#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "model/model_file.h"
#include "model/workspace.h"
#include "ops/runtime.h"

namespace soli::cli {

/// What the process needs beside the parts below: the program, its threads' stacks, the vocabulary, metadata
/// and buffers that grow with use. Charged to the budget as one part, so that --memory holds for the whole
/// process.
inline constexpr int64_t kProcessBytes = int64_t{128} << 20;

/// Bytes of a model's weights once packed and in memory.
struct WeightBytes {
  int64_t shared = 0;   // everything but the routed experts
  int64_t experts = 0;  // all routed experts
};

/// Counts without reading a weight. Fails with kUnsupported for a weight type that soli cannot multiply with.
Result<WeightBytes> count_weight_bytes(const ModelFile& file, Runtime& runtime);

/// What a model needs before it can run, part by part, as the Budget charges it.
struct MemoryNeed {
  int64_t shared_weights = 0;  // everything but the routed experts, packed
  int64_t experts = 0;         // all routed experts, packed
  int64_t activations = 0;     // the buffers of a step
  int64_t kv = 0;              // pages for the positions that were asked for
  int64_t process = 0;         // kProcessBytes, and what operations take for their own use

  int64_t total() const { return shared_weights + experts + activations + kv + process; }
  /// "weights 1.2 GiB, experts 3.0 GiB, ..."
  std::string description() const;
};

/// `n_positions` is the number of KV positions that will be used at once, over all sequences that run
/// together. Fails as count_weight_bytes does.
Result<MemoryNeed> count_memory_need(const ModelFile& file, Runtime& runtime, const EngineOptions& options,
                                     int64_t n_positions);

}  // namespace soli::cli
