#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/clock.h"
#include "engine/counters.h"
#include "engine/sequence.h"
#include "model/batch.h"

namespace soli {

struct SchedulerLimits {
  int64_t max_sequences = 0;   // that run at once
  int64_t max_queued = 0;      // requests that wait
  int64_t chunk_rows = 0;      // rows of a step
  int64_t max_logit_rows = 0;  // rows of a step that want logits
};

/// Rows [begin, begin + n) of a batch are the tokens of one sequence from n_computed on.
struct PlannedRows {
  Sequence* sequence = nullptr;
  int64_t begin = 0;
  int64_t n = 0;
};

/// What a step computes.
struct Plan {
  Batch batch;
  std::vector<PlannedRows> parts;
};

/// Admits requests, gives them KV pages and chooses the rows of a step. enqueue() and cancel_before() from
/// any thread, the rest from the engine's.
class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, KvPagePool& pool, EngineClock clock, EngineMeter& meter)
      : limits_(limits), pool_(pool), clock_(std::move(clock)), meter_(meter) {}
  ~Scheduler();

  /// Fails with kLimit when max_queued requests wait already.
  Status enqueue(RequestId id, Request request, std::shared_ptr<Stream> stream);

  /// The next plan() ends all requests with lower ids.
  void cancel_before(RequestId id) { cancel_before_.store(id); }

  /// The rows of the next step: every decoding sequence's one row, then prompts in order of arrival, in
  /// chunks, while rows are left. Frees sequences whose client has left; passes over those whose stream is
  /// full. Empty: nothing to do.
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
  /// Hands a generated token to the client.
  void deliver_token(Sequence& sequence, StreamEvent event);

 private:
  struct Queued {
    RequestId id;
    Request request;
    std::shared_ptr<Stream> stream;
    EngineTime submitted;
  };

  void admit_queued();
  void drop_closed();
  bool has_left(RequestId id, const Stream& stream) const {
    return stream.is_closed() || id < cancel_before_.load();
  }
  void choose_rows();
  void add_rows(Sequence& sequence);
  bool relieve_starvation();
  void begin_if_new(Sequence& sequence);
  bool wants_logits(const Sequence& sequence, int64_t position) const;
  void finish(Sequence& sequence, FinishReason reason, std::optional<Error> error);
  void finish(const Queued& queued);

  const SchedulerLimits limits_;
  KvPagePool& pool_;
  const EngineClock clock_;
  EngineMeter& meter_;
  std::atomic<RequestId> cancel_before_{0};
  std::mutex queue_mutex_;
  std::deque<Queued> queue_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of arrival
  Plan plan_;
  EngineTime planned_ = {};          // when plan() was called
  int64_t n_logit_rows_ = 0;         // of the plan so far
  Sequence* starved_ = nullptr;      // the oldest that got no row for want of a KV page
  std::optional<Error> page_error_;  // why
};

}  // namespace soli
