#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace soli {

Scheduler::~Scheduler() {
  for (const Queued& queued : queue_) finish(queued);
  for (const auto& sequence : running_) finish(*sequence, FinishReason::kCancelled, {});
}

Status Scheduler::enqueue(RequestId id, Request request, std::shared_ptr<Stream> stream) {
  const EngineTime now = clock_();
  const std::lock_guard lock(queue_mutex_);
  const bool has_room = static_cast<int64_t>(queue_.size()) < limits_.max_queued;
  meter_.update([&](EngineCounters& counters) {
    counters.n_refused += has_room ? 0 : 1;
    counters.n_submitted += has_room ? 1 : 0;
    counters.n_waiting += has_room ? 1 : 0;
  });
  if (!has_room) return fail(ErrorKind::kLimit, "the queue is full: {} requests wait", limits_.max_queued);
  queue_.push_back({id, std::move(request), std::move(stream), now});
  return {};
}

const Plan& Scheduler::plan() {
  planned_ = clock_();
  drop_closed();
  admit_queued();
  do {
    choose_rows();
  } while (plan_.parts.empty() && relieve_starvation());
  return plan_;
}

void Scheduler::choose_rows() {
  plan_.batch.rows.clear();
  plan_.parts.clear();
  n_logit_rows_ = 0;
  starved_ = nullptr;
  // Decoding first: a running stream keeps its pace while prompts are read.
  for (const auto& sequence : running_) {
    if (sequence->n_pending() == 1) add_rows(*sequence);
  }
  for (const auto& sequence : running_) {
    if (sequence->n_pending() > 1) add_rows(*sequence);
  }
}

/// When no sequence can go on for want of KV pages, the oldest that starves takes them from the youngest,
/// which is computed again later. So the oldest always gains a position, and all end. One that starves with
/// nobody else holding pages fails. False when there is nothing to relieve, or when the pages belong to older
/// sequences whose clients have yet to read.
bool Scheduler::relieve_starvation() {
  if (starved_ == nullptr) return false;
  const auto holds_pages = [&](const auto& sequence) {
    return sequence.get() != starved_ && !sequence->kv.pages().empty();
  };
  const auto youngest = std::find_if(running_.rbegin(), running_.rend(), holds_pages);
  if (youngest == running_.rend()) {
    finish(*starved_, FinishReason::kFailed, page_error_);
    std::erase_if(running_, [&](const auto& running) { return running.get() == starved_; });
    return true;
  }
  if ((*youngest)->id < starved_->id) return false;
  (*youngest)->preempt();
  meter_.update([](EngineCounters& counters) { ++counters.n_preempted; });
  return true;
}

void Scheduler::drop_closed() {
  std::erase_if(running_, [&](const auto& sequence) {
    if (!has_left(sequence->id, *sequence->stream)) return false;
    finish(*sequence, FinishReason::kCancelled, {});
    return true;
  });
  std::vector<Queued> left;
  {
    const std::lock_guard lock(queue_mutex_);
    std::erase_if(queue_, [&](Queued& queued) {
      if (!has_left(queued.id, *queued.stream)) return false;
      left.push_back(std::move(queued));
      return true;
    });
  }
  for (const Queued& queued : left) finish(queued);  // not under the lock: clients are told of it
}

void Scheduler::admit_queued() {
  const std::lock_guard lock(queue_mutex_);
  while (!queue_.empty() && static_cast<int64_t>(running_.size()) < limits_.max_sequences) {
    Queued& next = queue_.front();
    running_.push_back(
        std::make_unique<Sequence>(next.id, std::move(next.request), std::move(next.stream), pool_));
    running_.back()->summary.submitted = next.submitted;
    queue_.pop_front();
    meter_.update([](EngineCounters& counters) {
      --counters.n_waiting;
      ++counters.n_running;
    });
  }
}

bool Scheduler::wants_logits(const Sequence& sequence, int64_t position) const {
  if (sequence.request.prompt_detail != Detail::kNone && position < sequence.n_prompt()) return true;
  return position == sequence.n_tokens() - 1;
}

/// Adds as many of the sequence's pending tokens as rows, logit rows and KV pages are left for.
void Scheduler::add_rows(Sequence& sequence) {
  if (sequence.stream->is_full()) return;
  Batch& batch = plan_.batch;
  const int64_t begin = batch.n_rows();
  const int64_t n_free = limits_.chunk_rows - begin;
  int64_t n = std::min(sequence.n_pending(), n_free);
  if (Status reserved = sequence.kv.reserve(sequence.n_computed + n); !reserved) {
    // What pages there are must do; the rest waits until another sequence frees some.
    n = std::min(n,
                 static_cast<int64_t>(sequence.kv.pages().size()) * kKvPagePositions - sequence.n_computed);
    if (n == 0 && (starved_ == nullptr || sequence.id < starved_->id)) {
      starved_ = &sequence;
      page_error_ = std::move(reserved).error();
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t position = sequence.n_computed + i;
    const bool want_logits = wants_logits(sequence, position);
    if (want_logits && n_logit_rows_ == limits_.max_logit_rows) break;
    n_logit_rows_ += want_logits ? 1 : 0;
    batch.rows.push_back({.request = sequence.id,
                          .position = position,
                          .token = sequence.tokens[static_cast<size_t>(position)],
                          .want_logits = want_logits,
                          .adapter = sequence.request.adapter,
                          .policy = &sequence.request.policy,
                          .pages = sequence.kv.pages()});
  }
  if (batch.n_rows() > begin) plan_.parts.push_back({&sequence, begin, batch.n_rows() - begin});
}

void Scheduler::commit(std::span<Outcome> outcomes) {
  SOLI_CHECK(outcomes.size() == plan_.parts.size());
  for (size_t i = 0; i < outcomes.size(); ++i) {
    Sequence& sequence = *plan_.parts[i].sequence;
    begin_if_new(sequence);
    sequence.advance(plan_.parts[i].n);
    sequence.tokens.insert(sequence.tokens.end(), outcomes[i].new_tokens.begin(),
                           outcomes[i].new_tokens.end());
    if (!outcomes[i].finish) continue;
    finish(sequence, *outcomes[i].finish, std::move(outcomes[i].error));
    std::erase_if(running_, [&](const auto& running) { return running.get() == &sequence; });
  }
}

void Scheduler::begin_if_new(Sequence& sequence) {
  if (sequence.summary.first_computed) return;
  sequence.summary.first_computed = planned_;
  meter_.update([&](EngineCounters& counters) { counters.prompt_tokens += sequence.n_prompt(); });
}

void Scheduler::deliver_token(Sequence& sequence, StreamEvent event) {
  if (!sequence.summary.first_token) sequence.summary.first_token = clock_();
  ++sequence.summary.n_generated;
  meter_.update([](EngineCounters& counters) { ++counters.generated_tokens; });
  sequence.stream->push(std::move(event));
}

void Scheduler::finish(Sequence& sequence, FinishReason reason, std::optional<Error> error) {
  sequence.summary.finished = clock_();
  meter_.update([&](EngineCounters& counters) {
    --counters.n_running;
    ++counters.n_finished[static_cast<size_t>(reason)];
  });
  sequence.stream->push({.kind = StreamEvent::Kind::kFinished,
                         .position = sequence.n_tokens(),
                         .reason = reason,
                         .error = std::move(error),
                         .summary = sequence.summary});
}

void Scheduler::finish(const Queued& queued) {
  meter_.update([](EngineCounters& counters) {
    --counters.n_waiting;
    ++counters.n_finished[static_cast<size_t>(FinishReason::kCancelled)];
  });
  const auto n_prompt = static_cast<int64_t>(queued.request.prompt.size());
  queued.stream->push(
      {.kind = StreamEvent::Kind::kFinished,
       .summary = {.n_prompt = n_prompt, .submitted = queued.submitted, .finished = clock_()}});
}

}  // namespace soli
