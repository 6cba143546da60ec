#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench_options.h"
#include "cli/interrupt.h"
#include "cli/session.h"
#include "plan/measured.h"
#include "plan/paired_ratio.h"

namespace soli::cli {

/// What it costs to watch the experts while one sequence decodes.
struct WatchingFigures {
  static constexpr int64_t kBlockTokens = 32;  // with the watcher, and as many without it: a pair

  Watcher watcher = Watcher::kRecorder;
  PairedRatio ratio;  // time with the watcher over time without it
  Measured with_tokens_per_s;
  Measured without_tokens_per_s;
};

/// Loads the model for it. Fails where there is nothing to watch, or no room for a pair.
Status load_for_watching(Session& session, const BenchOptions& options);

/// Measures options.pairs pairs. Fails with kCancelled on Ctrl-C.
Result<WatchingFigures> measure_watching(Session& session, const BenchOptions& options,
                                         const InterruptGuard& interrupt);

std::string render_text(const WatchingFigures& figures);
nlohmann::ordered_json to_json(const WatchingFigures& figures);

}  // namespace soli::cli
