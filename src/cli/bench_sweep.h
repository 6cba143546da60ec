#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "observe/line_plot.h"

namespace soli::cli {

/// One memory, under one policy.
struct SweepPoint {
  CachePolicyKind policy = CachePolicyKind::kAuto;
  int64_t budget_bytes = 0;  // of the whole process; 0 where only a trace was replayed
  int64_t n_slots = 0;
  double slot_share = 0;                       // of all experts
  std::optional<double> tokens_per_s = {};     // measured
  double hit_rate = 0;                         // counted, or replayed
  std::optional<double> bytes_per_token = {};  // counted
};

/// What the trace allows at a number of slots.
struct SweepBound {
  int64_t n_slots = 0;
  double slot_share = 0;
  double belady_hit_rate = 0;
  double static_hit_rate = 0;
};

struct SweepFigures {
  int64_t n_experts = 0;
  int64_t n_tokens = 0;  // generated per point
  std::vector<SweepPoint> points;
  std::vector<SweepBound> bounds;
};

/// Runs the model at budgets from the least to all experts in memory, or to the limit, under each policy.
/// Loads it. Fails with kCancelled on Ctrl-C.
Result<SweepFigures> sweep_model(Session& session, const BenchOptions& options,
                                 const InterruptGuard& interrupt);
/// Replays the turns of a trace that `run --access-trace` wrote, or --trace: hit rates only. Of the latter,
/// prompts are read in chunks of --batch-size.
Result<SweepFigures> sweep_trace(const BenchOptions& options);

std::string render_text(const SweepFigures& figures);
nlohmann::ordered_json to_json(const SweepFigures& figures);
/// Hit rates, and tokens/s where they were measured.
std::vector<Plot> plots_of(const SweepFigures& figures);

}  // namespace soli::cli
