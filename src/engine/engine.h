#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "engine/kv_pages.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/stream.h"
#include "model/forward.h"
#include "model/hooks.h"
#include "model/model.h"

namespace soli {

struct EngineOptions {
  int64_t context_length = 0;  // positions per sequence; 0: the model's own
  int64_t max_sequences = 8;   // that share a step
  int64_t max_queued = 256;    // requests that wait
  int64_t chunk_rows = 512;    // rows of a step, prefill and decode together
  int64_t max_logit_rows = 128;
  int64_t max_experts_per_token = 0;  // that a request may ask for; 0: the model's k
  KvType kv_type = KvType::kF16;
  ActivationPrecision activations = ActivationPrecision::kQ8;  // of quantised weights
  Hooks hooks = {};                                            // at first; see Engine::set_hooks

  /// The limits of the workspace and of the expert executor that go with these options.
  Workspace::Limits workspace_limits() const {
    return {.max_rows = chunk_rows,
            .max_logit_rows = max_logit_rows,
            .max_experts_per_token = max_experts_per_token};
  }
};

/// What the engine has done since it was made. Counted.
struct EngineCounters {
  int64_t steps = 0;
  int64_t prompt_rows = 0;  // rows of prompts
  int64_t decode_rows = 0;  // rows of generated tokens
};

/// The loop: plan a batch, run the forward, sample, commit. submit() may be called from any thread; step()
/// from one thread at a time. Everything that generates text in soli goes through here.
class Engine {
 public:
  /// `model` and `experts` are borrowed. Fails with kInvalidArgument or kLimit (budget).
  static Result<std::unique_ptr<Engine>> create(const Model& model, ExpertExecutor& experts,
                                                const EngineOptions& options);

  /// Queues a request. Fails with kInvalidArgument (a bad token, sampling parameter or policy; a prompt that
  /// is empty or longer than the context, with both counts) or kLimit (the queue is full).
  Result<std::shared_ptr<Stream>> submit(Request request);

  /// Runs one step. False when there was nothing to do: no request waits, runs, or all that run are paused.
  bool step();

  /// Who looks on, and who controls the router, from the next step on. Borrowed; called on the thread that
  /// steps, which is the one that may call this.
  void set_hooks(const Hooks& hooks) { hooks_ = hooks; }

  int64_t context_length() const { return context_length_; }
  const EngineCounters& counters() const { return counters_; }
  const KvPagePool& kv_pages() const { return pages_; }

 private:
  Engine(const Model& model, ExpertExecutor& experts, const EngineOptions& options, Workspace workspace);

  Status validate(const Request& request) const;
  Status validate(const RoutingPolicy& policy) const;
  void find_outcome(const PlannedRows& part, std::span<const BatchRow> rows, MatrixView<const float> logits,
                    Scheduler::Outcome& outcome);
  void deliver_prompt_row(Sequence& sequence, int64_t position, std::span<const float> logits);
  void draw_token(Sequence& sequence, std::span<const float> logits, Scheduler::Outcome& outcome);
  void count(const Plan& plan);

  const Model& model_;
  ExpertExecutor& experts_;
  const EngineOptions options_;
  Hooks hooks_;
  const int64_t context_length_;
  SequenceLayout layout_;
  KvPagePool pages_;
  OpContext context_;
  Workspace workspace_;
  Scheduler scheduler_;
  std::vector<Scheduler::Outcome> outcomes_;  // of the step
  EngineCounters counters_;
  std::atomic<RequestId> next_id_{1};
};

}  // namespace soli
