#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/clock.h"
#include "engine/counters.h"
#include "engine/delivery.h"
#include "engine/kv_pages.h"
#include "engine/page_routing.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/stream.h"
#include "engine/token_experts.h"
#include "engine/wakeup.h"
#include "model/choice_recorder.h"
#include "model/forward.h"
#include "model/hooks.h"
#include "model/model.h"

namespace soli {

struct EngineOptions {
  int64_t context_length = 0;         // positions per sequence; 0: the model's own
  int64_t max_sequences = 8;          // that share a step; those whose clients have yet to read not counted
  int64_t max_queued = 256;           // requests that wait, beside those for which a place is free
  int64_t max_queued_per_tenant = 0;  // the same of one tenant; 0: as many as may wait at all
  int64_t chunk_rows = 512;           // rows of a step, prefill and decode together
  int64_t max_logit_rows = 128;
  int64_t max_experts_per_token = 0;  // that a request may ask for; 0: the model's k
  KvType kv_type = KvType::kF16;
  ActivationPrecision activations = ActivationPrecision::kQ8;  // of quantised weights
  Hooks hooks = {};                                            // at first; see Engine::set_hooks
  const EngineClock* clock = nullptr;                          // borrowed; null: std::chrono::steady_clock
  int64_t max_kv_pages = 0;      // of kKvPagePositions each, cached ones included; 0: as the budget allows
  bool prefix_cache = false;     // pages of past requests serve those that begin alike
  int64_t max_cached_pages = 0;  // that no running request holds; 0: as many as there is room for
  bool keep_routing = false;     // beside the pages, so that requests may want it
  bool keep_steering_state = false;  // likewise, so that their policies may look at preceding tokens
  /// How much longer a step of decoding rows may take for prompts that are read in it: 1 or more; 0: no
  /// limit.
  double max_slowdown = 0;
  /// Experts are read from the disk, once for all rows of a step: prompts are read in whole chunks where
  /// small ones prove to be wasteful, and `max_slowdown` holds for the mean over steps.
  bool chunks_share_reads = false;
  /// Of waiting requests with equal rights, those that are expected to call the same experts run together.
  bool group_requests = false;

  /// The limits of the workspace and of the expert executor that go with these options.
  Workspace::Limits workspace_limits() const {
    return {.max_rows = chunk_rows,
            .max_logit_rows = max_logit_rows,
            .max_experts_per_token = max_experts_per_token};
  }
  /// What a KV page of an engine with these options holds.
  KvPagePool::Shape page_shape(const ModelSpec& spec) const;
};

/// The loop: plan a batch, run the forward, sample, commit. step() and set_hooks() may be called from one
/// thread at a time, all else from any. Everything that generates text in soli goes through here.
class Engine {
 public:
  /// `model` and `experts` are borrowed. Fails with kInvalidArgument or kLimit (budget).
  static Result<std::unique_ptr<Engine>> create(const Model& model, ExpertExecutor& experts,
                                                const EngineOptions& options);

  /// Queues a request. Fails with kInvalidArgument (a bad token, sampling parameter or policy; a prompt that
  /// is empty or longer than the context, with both counts) or kLimit (no place is free, and the queue full).
  Result<std::shared_ptr<Stream>> submit(Request request);
  /// The same for some requests of one tenant: all, or none. More than can ever run and wait at once are
  /// kInvalidArgument.
  Result<std::vector<std::shared_ptr<Stream>>> submit_all(std::span<const Request> requests);

  /// Runs one step. False when there was nothing to do: no request waits, runs, or all that run are paused.
  bool step();

  /// After a step() that had nothing to do: sleeps until there may be something, for a request has come, a
  /// client has left or made room in a full stream, or somebody called wake() or cancel_all(), at any time
  /// since that step began. False where nothing came within `timeout` (at most Wakeup::kLongestWait). On the
  /// thread that steps.
  bool wait_for_work(std::chrono::milliseconds timeout) { return wakeup_->wait_for(timeout); }
  /// Ends a wait_for_work(), now or the next.
  void wake() { wakeup_->signal(); }
  /// The next step ends all requests that were submitted before this call, with kCancelled.
  void cancel_all();

  /// Who looks on, and who controls the router, from the next step on. Borrowed; called on the thread that
  /// steps, which is the one that may call this. With a control, or after a change of it, no pages are shared
  /// with requests of before.
  void set_hooks(const Hooks& hooks);

  /// Who records what is chosen from the next step on, whatever the hooks are, or null. Borrowed; as
  /// set_hooks().
  void set_recorder(ChoiceRecorder* recorder) { recorder_ = recorder; }

  int64_t context_length() const { return context_length_; }
  EngineCounters counters() const { return meter_.read(); }
  /// For the thread that steps.
  const KvPagePool& kv_pages() const { return pages_; }

 private:
  Engine(const Model& model, ExpertExecutor& experts, const EngineOptions& options, Workspace workspace,
         std::optional<TokenExperts> token_experts);

  void find_outcomes(const Plan& plan, const StepOutput& output);
  bool find_failure(int64_t batch_row, const BatchRow& row, Scheduler::Outcome& outcome) const;
  bool deliver_kept_routing();
  void run(const Plan& plan);
  void tell_recorder(const Plan& plan);
  void count(const Plan& plan);
  Hooks step_hooks(const Plan& plan);
  void show_state();

  const Model& model_;
  ExpertExecutor& experts_;
  const EngineOptions options_;
  Hooks hooks_;
  const int64_t context_length_;
  const std::shared_ptr<Wakeup> wakeup_;  // shared with streams, which may live longer
  EngineMeter meter_;
  SequenceLayout layout_;
  const RoutingLayout routing_layout_;
  RoutingKeeper routing_keeper_;
  std::vector<std::byte*> row_routing_;  // of the step: where its rows' routing is kept
  KvPagePool pages_;
  OpContext context_;
  Workspace workspace_;
  std::optional<TokenExperts> token_experts_;
  Scheduler scheduler_;
  const Delivery delivery_;
  std::vector<Scheduler::Outcome> outcomes_;  // of the step
  std::atomic<RequestId> next_id_{1};
  ChoiceRecorder* recorder_ = nullptr;
};

}  // namespace soli
