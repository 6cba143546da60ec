#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/divergence.h"
#include "cli/eval_options.h"
#include "cli/eval_texts.h"
#include "cli/routing_tally.h"
#include "cli/session.h"

namespace soli::cli {

/// What one run over one text, or over several, came to.
struct EvalResult {
  std::vector<WindowLoss> losses = {};  // of the windows that were done
  int64_t window = 0;
  double seconds = 0;
  bool complete = true;                    // not interrupted
  std::optional<int64_t> bytes_read = {};  // of experts, where not all are in memory
  ActiveTotals active = {};
  OverflowCounts overflow = {};
  std::vector<std::vector<int64_t>> calls = {};  // [layer][expert]; a dense layer has none

  Perplexity perplexity() const { return combine(losses); }
  double tokens_per_second() const;
  EvalResult& operator+=(const EvalResult& other);
};

/// Of the calls in a memory that is too small for all experts, what was not the model's own answer.
struct Rerouted {
  int64_t n_calls = 0;
  int64_t n_moved = 0;  // to another expert than the model's choice
  int64_t n_used = 0;   // experts of a step
  int64_t n_twins = 0;  // of them, computed by twins

  Rerouted& operator+=(const Rerouted& other);
};

/// The same windows, first exactly and then as the options say.
struct Comparison {
  EvalResult exact = {};
  EvalResult lossy = {};
  DivergenceSamples divergence = {};
  Rerouted rerouted = {};

  Comparison& operator+=(const Comparison& other);
};

/// Runs texts through the engine of a loaded session, borrowed.
class EvalRuns {
 public:
  EvalRuns(const EvalOptions& options, Session& session, int64_t window);

  Result<EvalResult> measure(const EvalText& text, const RoutingPolicy& policy, const std::string& label) {
    return run(text, policy, label, {});
  }
  /// Exactly, and then with each of the policies: one comparison for each that was begun. The expert memory
  /// is as warm for a run as the one before left it.
  Result<std::vector<Comparison>> compare(const EvalText& text, const std::vector<RoutingPolicy>& policies);

 private:
  using OnLogits = decltype(Evaluation::on_logits);
  Result<EvalResult> run(const EvalText& text, const RoutingPolicy& policy, const std::string& label,
                         const OnLogits& on_logits);
  int64_t bytes_read() const;

  const EvalOptions& options_;
  Session& session_;
  const int64_t window_;
  const ParameterCounts parameters_;
};

}  // namespace soli::cli
