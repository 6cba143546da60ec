#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "cli/bench_probe.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "experts/cache_counters.h"
#include "plan/measured.h"

namespace soli::cli {

/// What an expert memory did in the measured steps; all zero where all experts are in memory.
struct MemoryFigures {
  CacheCounters counters;
  int64_t n_steps = 0;  // or prompts

  double hit_rate() const;
  double bytes_per_step() const;  // read from the disk
};

/// Reading a prompt: from submitting it to its first token.
struct PrefillFigures {
  int64_t n_tokens = 0;
  Measured tokens_per_s;
  double operations_per_token = 0;  // 2 per weight that takes part; the output head for the last token only
  MemoryFigures memory;             // per prompt
};

/// Decode steps in which every sequence has a row; their prompts are read before.
struct DecodeFigures {
  int64_t n_sequences = 0;
  Measured tokens_per_s;  // of all sequences together
  Measured steps_per_s;
  double touched_bytes_per_step = 0;  // of weights, each distinct expert of the step once; mean of all steps
  double kv_bytes_per_step = 0;
  MemoryFigures memory;
};

struct BenchFigures {
  std::vector<PrefillFigures> prefill;
  std::vector<DecodeFigures> decode;
  std::optional<ProbeFigures> probe;      // with --probe
  std::vector<std::string> void_reasons;  // of its shares; empty: the run counts
};

/// Loads the model for what the options ask for, and checks first that its context and steps have room; of
/// lists that were left at their defaults, what does not fit is left out, and said.
Status load_for_bench(Session& session, BenchOptions& options);

/// Measures everything. Fails with kCancelled on Ctrl-C.
Result<BenchFigures> measure_bench(Session& session, const BenchOptions& options,
                                   const InterruptGuard& interrupt);

}  // namespace soli::cli
