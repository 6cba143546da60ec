#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "experts/cache_policy.h"
#include "experts/prefetch_gate.h"

namespace CLI {
class App;
}

namespace soli::cli {

/// How much memory a process may take, and what it does where a model's experts do not fit.
struct MemoryOptions {
  std::optional<int64_t> limit_bytes;  // absent: "auto", by what the machine has available
  CachePolicyKind policy = CachePolicyKind::kAuto;
  PrefetchGate::Mode prefetch = PrefetchGate::Mode::kAuto;
  int64_t prefetch_layers = 1;  // to look ahead
  int64_t io_depth = 0;         // reads in flight; 0: by a measurement of the disk
  bool force_tiers = false;     // slots and disk even where all experts would fit
  bool report = false;          // what the expert memory did is to be told at the end
  int64_t further_bytes = 0;    // that the command itself needs beside the model
  std::string trace_file;       // to write, or ""
  std::string heat_file;        // to read if it is there, and to write, or ""
  // Lossy:
  double preference = 1;  // how much more an expert in memory counts in the router's choice
  std::string twin_path;  // a smaller file of the same model, for experts that are not in memory, or ""

  bool lossy() const { return preference > 1 || !twin_path.empty(); }
};

/// Adds --memory, --cache-policy, --prefetch, --prefetch-layers, --io-depth, --prefer-cached and --twin.
void add_memory_options(CLI::App& app, MemoryOptions& options);

const char* name_of(CachePolicyKind policy);
const char* name_of(PrefetchGate::Mode mode);

/// The limit that the options mean.
struct MemoryLimit {
  int64_t bytes = 0;
  std::string origin;  // "--memory", or what auto went by
};
/// Auto leaves a tenth of what is available to others. Fails where the machine does not tell.
Result<MemoryLimit> memory_limit(const MemoryOptions& options);

}  // namespace soli::cli
