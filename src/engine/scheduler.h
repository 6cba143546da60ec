#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/clock.h"
#include "engine/counters.h"
#include "engine/prefill_pace.h"
#include "engine/prefix_sharing.h"
#include "engine/request_queue.h"
#include "engine/sequence.h"
#include "model/batch.h"

namespace soli {

struct SchedulerLimits {
  int64_t max_sequences = 0;          // that share a step
  int64_t max_queued = 0;             // requests that wait, beside those for which a place is free
  int64_t max_queued_per_tenant = 0;  // the same of one tenant; 0: as many as may wait at all
  int64_t chunk_rows = 0;             // rows of a step
  int64_t max_logit_rows = 0;         // rows of a step that want logits
  double max_slowdown = 0;            // see PrefillPace
  bool chunks_share_reads = false;    // see PrefillPace
  bool prefix_cache = false;
  int64_t max_cached_pages = 0;  // see PrefixCache
};

/// Rows [begin, begin + n) of a batch are the tokens of one sequence from n_computed on.
struct PlannedRows {
  Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t n = 0;
  bool decodes = false;  // one row, the sequence's last token
};

/// What a step computes.
struct Plan {
  Batch batch;
  std::vector<PlannedRows> parts;
};

/// Admits requests, gives them KV pages and chooses the rows of a step. A sequence whose client has yet to
/// read is paused: it holds up nobody, and has no claim on a place or on pages. enqueue() and cancel_before()
/// from any thread, the rest from the engine's. docs/scheduling.md tells the whole of it.
class Scheduler {
 public:
  /// `token_experts` is borrowed; null: requests are not grouped by what they are expected to call.
  Scheduler(const SchedulerLimits& limits, KvPagePool& pool, EngineClock clock, EngineMeter& meter,
            const TokenExperts* token_experts);
  ~Scheduler();

  /// Requests of one tenant: all, or none. Fails with kLimit when neither free places nor the queue, for all
  /// tenants or for this one, have room for them now, and with kInvalidArgument when they never will.
  Status enqueue(std::vector<QueuedRequest> requests);

  /// The next plan() ends all requests with lower ids.
  void cancel_before(RequestId id) { cancel_before_.store(id); }

  /// The rows of the next step: every decoding sequence's one row, then prompts, in chunks, while rows are
  /// left: those of the least served tenant first, then in order of arrival. Frees sequences whose client has
  /// left; passes over those whose stream is full. Empty: nothing to do.
  const Plan& plan();

  /// What became of one sequence's rows: tokens that it gained (0 or more), or its end.
  struct Outcome {
    std::vector<int32_t> new_tokens;
    std::optional<FinishReason> finish;
    std::optional<Error> error;

    void clear() {
      new_tokens.clear();
      finish.reset();
      error.reset();
    }
  };
  /// Takes over the outcome of plan().parts[i] as outcomes[i]: advances, delivers kFinished, frees.
  void commit(std::span<Outcome> outcomes);

  std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
  /// Of those, the ones whose clients have yet to read.
  int64_t n_paused() const;
  const PrefixCache& prefix_cache() const { return sharing_.cache(); }
  /// A control steers the routing from now on, or no more: pages of before are of no use to those after, and
  /// with a control none are shared.
  void change_control(bool has_control);

 private:
  Status check_room(uint32_t tenant, int64_t n) const;
  int64_t n_places() const;
  void admit_queued();
  const QueuedRequest* choose_next();
  bool has_room_for(const Request& request);
  void drop_closed();
  bool has_left(RequestId id, const Stream& stream) const {
    return stream.is_closed() || id < cancel_before_.load();
  }
  void choose_rows();
  std::vector<Sequence*> sequences_with_a_place();
  std::vector<Sequence*> prompts_in_order(std::span<Sequence* const> sequences) const;
  bool was_preempted(const Sequence& sequence) const;
  bool waits_for_another(const Sequence& sequence) const;
  void take_cached(Sequence& sequence);
  int64_t n_ready(const Sequence& sequence) const;
  int64_t give_pages(Sequence& sequence, int64_t n);
  void add_rows(Sequence& sequence, int64_t most);
  bool relieve_starvation();
  Sequence* who_gives_pages() const;
  void record_time();
  void advance(const PlannedRows& part);
  void begin_if_new(Sequence& sequence);
  bool wants_logits(const Sequence& sequence, int64_t position) const;
  bool wants_hidden(const Sequence& sequence, int64_t position) const;
  void finish(Sequence& sequence, FinishReason reason, std::optional<Error> error);
  void finish(const QueuedRequest& queued);

  const SchedulerLimits limits_;
  KvPagePool& pool_;
  const EngineClock clock_;
  EngineMeter& meter_;
  const TokenExperts* const token_experts_;
  std::atomic<RequestId> cancel_before_{0};
  mutable std::mutex queue_mutex_;
  RequestQueue queue_;
  int64_t n_running_ = 0;      // for those who enqueue
  int64_t n_last_paused_ = 0;  // of those, when requests were last admitted
  PrefixSharing sharing_;
  PrefillPace pace_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  Plan plan_;
  EngineTime planned_ = {};           // when plan() was called
  int64_t n_logit_rows_ = 0;          // of the plan so far
  Sequence* starved_ = nullptr;       // the oldest that got no row for want of a KV page
  std::optional<Error> page_error_;   // why
  std::vector<RequestId> preempted_;  // in this plan
};

}  // namespace soli
