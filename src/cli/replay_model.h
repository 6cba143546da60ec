#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/divergence.h"
#include "cli/session.h"
#include "model/replay_router.h"
#include "observe/trace_sequences.h"

namespace soli::cli {

/// How the choices of a trace are forced on a model.
struct ModelReplay {
  ModelOptions model;
  std::string trace;
  int64_t request = -1;  // -1: all
  bool skips_incomplete = false;
  ReplayWeights weights = ReplayWeights::kRecorded;
  bool against_own = true;  // the model's own routing is measured too
  int64_t n_parallel = 4;   // requests that share a step
  std::string out;          // logits of the forced run to write, or ""
};

/// One pass over the trace's tokens.
struct ReplayRun {
  std::vector<WindowLoss> losses = {};          // by request
  std::vector<ChoiceAgreement> agreement = {};  // [layers with experts] of the model's own choices

  Perplexity perplexity() const { return combine(losses); }
  ChoiceAgreement total() const;
};

struct ReplayFigures {
  ModelReplay replay;
  std::string model;                       // "name (architecture)"
  TraceInfo info;                          // of the trace
  std::optional<bool> is_same_model = {};  // that the trace is of; absent: the trace does not say
  int64_t n_requests = 0;
  int64_t n_tokens = 0;
  int64_t n_skipped = 0;  // requests
  std::optional<ReplayRun> own = {};
  ReplayRun forced = {};
  DivergenceSamples divergence = {};  // of the forced run from the own one
};

/// Loads the model and runs the trace's tokens through it. Fails for a trace that does not fit the model
/// (observe/trace_sequences.h), requests longer than the context, and with kCancelled on Ctrl-C.
Result<ReplayFigures> replay_model(const ModelReplay& replay);

}  // namespace soli::cli
