#include "engine/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace soli {

namespace {

constexpr size_t kMostCompared = 32;  // waiting requests that are looked at for the next turn
constexpr int64_t kMostPassed = 16;   // younger ones that may go before one

/// Its client has yet to read. Only this thread makes it so, by what it delivers; clients end it at any time.
bool is_paused(const Sequence& sequence) { return sequence.stream->is_full(); }

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, KvPagePool& pool, EngineClock clock, EngineMeter& meter,
                     const TokenExperts* token_experts)
    : limits_(limits),
      pool_(pool),
      clock_(std::move(clock)),
      meter_(meter),
      token_experts_(token_experts),
      sharing_(pool, limits.prefix_cache, limits.max_cached_pages),
      pace_(limits.max_slowdown, limits.chunks_share_reads) {}

Scheduler::~Scheduler() {
  for (const QueuedRequest& queued : queue_.take([](const QueuedRequest&) { return true; })) finish(queued);
  for (const auto& sequence : running_) finish(*sequence, FinishReason::kCancelled, {});
}

Status Scheduler::enqueue(std::vector<QueuedRequest> requests) {
  SOLI_CHECK(!requests.empty());
  const uint32_t tenant = requests.front().request.tenant;
  const auto n = static_cast<int64_t>(requests.size());
  const EngineTime now = clock_();
  const std::lock_guard lock(queue_mutex_);
  const Status room = check_room(tenant, n);
  meter_.update([&](EngineCounters& counters) {
    counters.n_refused += !room && room.error().kind == ErrorKind::kLimit ? n : 0;
    counters.n_submitted += room ? n : 0;
    counters.n_waiting += room ? n : 0;
  });
  SOLI_RETURN_IF_ERROR(room);
  for (QueuedRequest& queued : requests) {
    queued.submitted = now;
    queue_.push(std::move(queued));
  }
  return {};
}

/// Those that wait for a place that is free are as good as admitted, and take no room from others.
Status Scheduler::check_room(uint32_t tenant, int64_t n) const {
  const int64_t of_tenant = queue_.size_of(tenant);
  const int64_t of_others = queue_.size() - of_tenant;
  const int64_t per_tenant = limits_.max_queued_per_tenant;
  const int64_t may_wait = per_tenant == 0 ? limits_.max_queued : std::min(per_tenant, limits_.max_queued);
  if (n > limits_.max_sequences + may_wait) {
    return fail(ErrorKind::kInvalidArgument,
                "{} texts at once are more than there is ever room for: {} may run and {} wait", n,
                limits_.max_sequences, may_wait);
  }
  const int64_t n_free = std::max<int64_t>(n_places() - n_running_, 0);
  if (of_others + of_tenant + n > limits_.max_queued + n_free) {
    return fail(ErrorKind::kLimit,
                "the queue is full: {} requests run and {} wait; {} and {} may, and {} came", n_running_,
                queue_.size(), limits_.max_sequences, limits_.max_queued, n);
  }
  if (per_tenant > 0 && of_tenant + n > per_tenant + std::max<int64_t>(n_free - of_others, 0)) {
    return fail(ErrorKind::kLimit, "{} of your requests wait, {} may where no place is free, and {} came",
                of_tenant, per_tenant, n);
  }
  return {};
}

/// Paused sequences cost no place, but some memory: no more of them than may wait in the queue.
int64_t Scheduler::n_places() const {
  return limits_.max_sequences + std::min(n_last_paused_, limits_.max_queued);
}

const Plan& Scheduler::plan() {
  planned_ = clock_();
  drop_closed();
  sharing_.trim();
  admit_queued();
  preempted_.clear();
  do {
    choose_rows();
  } while (relieve_starvation());
  return plan_;
}

void Scheduler::drop_closed() {
  std::erase_if(running_, [&](const auto& sequence) {
    if (!has_left(sequence->id, *sequence->stream)) return false;
    finish(*sequence, FinishReason::kCancelled, {});
    return true;
  });
  std::vector<QueuedRequest> left;
  {
    const std::lock_guard lock(queue_mutex_);
    left = queue_.take([&](const QueuedRequest& queued) { return has_left(queued.id, *queued.stream); });
  }
  for (const QueuedRequest& queued : left) finish(queued);  // not under the lock: clients are told of it
}

int64_t Scheduler::n_paused() const {
  return std::count_if(running_.begin(), running_.end(),
                       [](const auto& sequence) { return is_paused(*sequence); });
}

void Scheduler::admit_queued() {
  const std::lock_guard lock(queue_mutex_);
  n_last_paused_ = n_paused();
  while (n_running_ < n_places()) {
    const QueuedRequest* const next = choose_next();
    if (next == nullptr || !has_room_for(next->request)) return;
    QueuedRequest admitted = queue_.pop(next->id);
    running_.push_back(std::make_unique<Sequence>(admitted.id, std::move(admitted.request),
                                                  std::move(admitted.stream), pool_));
    running_.back()->profile = std::move(admitted.profile);
    running_.back()->summary.submitted = admitted.submitted;
    ++n_running_;
    meter_.update([](EngineCounters& counters) {
      --counters.n_waiting;
      ++counters.n_running;
    });
  }
}

/// Whose turn it is; null: nobody waits. Where several have the same right to it, the one that is expected to
/// call most of what the running ones call, so that a step needs fewer distinct experts; the oldest, once
/// enough younger ones went before it.
const QueuedRequest* Scheduler::choose_next() {
  const bool compares = token_experts_ != nullptr && !running_.empty();
  const std::vector<QueuedRequest*> candidates = queue_.candidates(compares ? kMostCompared : 1);
  if (candidates.empty()) return nullptr;
  QueuedRequest* best = candidates.front();
  if (candidates.size() == 1 || best->n_passed >= kMostPassed) return best;
  double most_alike = -1;
  for (QueuedRequest* const candidate : candidates) {
    if (candidate->profile.empty())
      candidate->profile = token_experts_->profile_of(candidate->request.prompt);
    double alike = 0;
    for (const auto& sequence : running_) alike += likeness(candidate->profile, sequence->profile);
    if (alike <= most_alike) continue;
    most_alike = alike;
    best = candidate;
  }
  return best;
}

/// Whether there are pages for the prompt and a token more, beside what the running sequences need for the
/// tokens that they have. Those of paused sequences can be had. Who runs alone may try in any case.
bool Scheduler::has_room_for(const Request& request) {
  bool is_alone = true;
  int64_t n_needed = sharing_.n_pages_needed(request);
  int64_t n_of_paused = 0;
  for (const auto& sequence : running_) {
    const auto n_held = static_cast<int64_t>(sequence->kv.pages().size());
    if (is_paused(*sequence)) {
      n_of_paused += n_held;
    } else {
      is_alone = false;
      n_needed += std::max<int64_t>(KvPageTable::pages_for(sequence->n_tokens() + 1) - n_held, 0);
    }
  }
  const int64_t n_room = pool_.n_room();
  return is_alone || n_needed <= n_room || n_needed <= n_room + n_of_paused + sharing_.n_evictable();
}

void Scheduler::choose_rows() {
  plan_.batch.rows.clear();
  plan_.parts.clear();
  n_logit_rows_ = 0;
  starved_ = nullptr;
  const std::vector<Sequence*> sequences = sequences_with_a_place();
  // Before any rows are chosen: who gets one as a decoding sequence may be a prompt again thereafter (see
  // give_pages()), and must not get more of them in this step.
  const std::vector<Sequence*> prompts = prompts_in_order(sequences);
  // Decoding first: a running stream keeps its pace while prompts are read.
  for (Sequence* const sequence : sequences) {
    if (sequence->n_pending() == 1) add_rows(*sequence, 1);
  }
  const int64_t n_decode_rows = plan_.batch.n_rows();
  const int64_t end = n_decode_rows + pace_.rows_beside(n_decode_rows, limits_.chunk_rows - n_decode_rows);
  for (Sequence* const sequence : prompts) {
    take_cached(*sequence);
    if (!waits_for_another(*sequence)) add_rows(*sequence, end - plan_.batch.n_rows());
  }
}

/// Those that can go on. Where some that were paused make it too many, they wait for those that never were,
/// so that slow readers which all read at once hold up nobody.
std::vector<Sequence*> Scheduler::sequences_with_a_place() {
  std::vector<Sequence*> sequences;
  std::vector<Sequence*> slow;
  for (const auto& sequence : running_) {
    if (is_paused(*sequence)) {
      sequence->was_paused = true;
    } else if (!was_preempted(*sequence)) {
      (sequence->was_paused ? slow : sequences).push_back(sequence.get());
    }
  }
  sequences.insert(sequences.end(), slow.begin(), slow.end());
  sequences.resize(std::min(sequences.size(), static_cast<size_t>(limits_.max_sequences)));
  return sequences;
}

std::vector<Sequence*> Scheduler::prompts_in_order(std::span<Sequence* const> sequences) const {
  using Place = std::tuple<int64_t, int64_t, RequestId>;
  std::vector<std::pair<Place, Sequence*>> found;
  const std::lock_guard lock(queue_mutex_);
  for (Sequence* const sequence : sequences) {
    if (sequence->n_pending() <= 1) continue;
    const Request& request = sequence->request;
    found.push_back({{queue_.served(request.tenant), -int64_t{request.priority}, sequence->id}, sequence});
  }
  std::sort(found.begin(), found.end());
  std::vector<Sequence*> ordered;
  for (const auto& [place, sequence] : found) ordered.push_back(sequence);
  return ordered;
}

bool Scheduler::was_preempted(const Sequence& sequence) const {
  return std::find(preempted_.begin(), preempted_.end(), sequence.id) != preempted_.end();
}

bool Scheduler::waits_for_another(const Sequence& sequence) const {
  return std::any_of(plan_.parts.begin(), plan_.parts.end(), [&](const PlannedRows& part) {
    return sharing_.waits_for(sequence, *part.sequence, part.sequence->n_computed + part.n);
  });
}

void Scheduler::take_cached(Sequence& sequence) {
  const int64_t n = sharing_.take(sequence);
  if (n == 0) return;
  begin_if_new(sequence);
  sequence.summary.n_cached += n;
  meter_.update([&](EngineCounters& counters) { counters.cached_prompt_tokens += n; });
  const std::lock_guard lock(queue_mutex_);
  queue_.serve(sequence.request.tenant, 0, n);
}

bool Scheduler::wants_logits(const Sequence& sequence, int64_t position) const {
  if (sequence.request.task != Task::kGenerate) return false;
  if (sequence.request.prompt_detail != Detail::kNone && position < sequence.n_prompt()) return true;
  return position == sequence.n_tokens() - 1;
}

bool Scheduler::wants_hidden(const Sequence& sequence, int64_t position) const {
  const Task task = sequence.request.task;
  return task == Task::kEmbedMean || (task == Task::kEmbedLast && position == sequence.n_tokens() - 1);
}

/// The tokens that may be computed now: all, but for the last of a prompt whose routing is still to be
/// delivered, token by token, since the first generated token comes after it.
int64_t Scheduler::n_ready(const Sequence& sequence) const {
  const Request& request = sequence.request;
  const int64_t n = sequence.n_pending();
  if (!request.want_routing || request.prompt_detail != Detail::kNone) return n;
  const int64_t n_to_deliver = sequence.n_prompt() - sequence.n_prompt_delivered;
  const bool fits = n_to_deliver <= static_cast<int64_t>(Stream::kCapacityEvents);
  return fits ? n : std::max<int64_t>(sequence.n_prompt() - 1 - sequence.n_computed, 0);
}

/// Makes room for up to `n` more positions, and says for how many there is some. What pages there are must
/// do; the rest waits until another sequence frees some.
int64_t Scheduler::give_pages(Sequence& sequence, int64_t n) {
  if (n == 0) return 0;
  if (!sequence.kv.unshare(sequence.n_computed)) {
    // Without this holder the shared page may be the one that can be had.
    const int64_t page_begin = sequence.n_computed / kKvPagePositions * kKvPagePositions;
    sequence.n_computed = page_begin;
    sequence.n_left = std::min(sequence.n_left, page_begin);
    sequence.kv.truncate(page_begin);
  }
  Status reserved = sequence.kv.reserve(sequence.n_computed + n);
  if (reserved) return n;
  n = std::min(n, static_cast<int64_t>(sequence.kv.pages().size()) * kKvPagePositions - sequence.n_computed);
  if (n == 0 && (starved_ == nullptr || sequence.id < starved_->id)) {
    starved_ = &sequence;
    page_error_ = std::move(reserved).error();
  }
  return n;
}

/// Adds as many of the sequence's pending tokens as rows, logit rows and KV pages are left for.
void Scheduler::add_rows(Sequence& sequence, int64_t most) {
  Batch& batch = plan_.batch;
  const int64_t begin = batch.n_rows();
  const bool decodes = sequence.n_pending() == 1;
  most = std::min({most, n_ready(sequence), limits_.chunk_rows - begin});
  const int64_t n = give_pages(sequence, std::max<int64_t>(most, 0));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t position = sequence.n_computed + i;
    const bool want_logits = wants_logits(sequence, position);
    if (want_logits && n_logit_rows_ == limits_.max_logit_rows) break;
    n_logit_rows_ += want_logits ? 1 : 0;
    batch.rows.push_back({.request = sequence.id,
                          .position = position,
                          .token = sequence.tokens[static_cast<size_t>(position)],
                          .want_logits = want_logits,
                          .want_hidden = wants_hidden(sequence, position),
                          .adapter = sequence.request.adapter,
                          .policy = &sequence.request.policy,
                          .pages = sequence.kv.pages(),
                          .steering = sequence.request.steering.get(),
                          .states = sequence.kv.states()});
  }
  if (batch.n_rows() > begin) plan_.parts.push_back({&sequence, begin, batch.n_rows() - begin, decodes});
}

/// The oldest sequence that starves for want of KV pages takes them from another, which is computed again
/// later: from a paused one at once, and where no sequence can go on, from the youngest. So the oldest that
/// is not paused always gains a position, and all end. One that starves with nobody else holding pages fails.
/// Who has lost its pages gets none in this plan: it may come before the starving one, by tenant or priority,
/// and would take them back from the cache, without end. False when there is nothing to relieve.
bool Scheduler::relieve_starvation() {
  if (starved_ == nullptr) return false;
  if (Sequence* const giver = who_gives_pages()) {
    giver->preempt();
    preempted_.push_back(giver->id);
    meter_.update([](EngineCounters& counters) { ++counters.n_preempted; });
    return true;
  }
  if (!plan_.parts.empty()) return false;  // others go on, and will leave some
  if (sharing_.clear()) return true;       // what it shares with the cache alone becomes its own
  finish(*starved_, FinishReason::kFailed, page_error_);
  std::erase_if(running_, [&](const auto& running) { return running.get() == starved_; });
  return true;
}

Sequence* Scheduler::who_gives_pages() const {
  Sequence* giver = nullptr;
  const auto rank = [](const Sequence& sequence) { return std::pair(is_paused(sequence), sequence.id); };
  for (const auto& sequence : running_) {
    if (sequence.get() == starved_ || sequence->kv.pages().empty()) continue;
    if (giver == nullptr || rank(*sequence) > rank(*giver)) giver = sequence.get();
  }
  const bool is_taken_from = giver != nullptr && (plan_.parts.empty() || is_paused(*giver));
  return is_taken_from ? giver : nullptr;
}

void Scheduler::change_control(bool has_control) {
  sharing_.enable(limits_.prefix_cache && !has_control);
  for (const auto& sequence : running_) sequence->is_private = true;
}

void Scheduler::commit(std::span<Outcome> outcomes) {
  SOLI_CHECK(outcomes.size() == plan_.parts.size());
  if (pace_.is_on()) record_time();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    Sequence& sequence = *plan_.parts[i].sequence;
    begin_if_new(sequence);
    advance(plan_.parts[i]);
    sequence.tokens.insert(sequence.tokens.end(), outcomes[i].new_tokens.begin(),
                           outcomes[i].new_tokens.end());
    if (!outcomes[i].error) sharing_.leave(sequence);
    if (!outcomes[i].finish) continue;
    finish(sequence, *outcomes[i].finish, std::move(outcomes[i].error));
    std::erase_if(running_, [&](const auto& running) { return running.get() == &sequence; });
  }
}

void Scheduler::record_time() {
  const double seconds = std::chrono::duration<double>(clock_() - planned_).count();
  int64_t n_decode_rows = 0;
  for (const PlannedRows& part : plan_.parts) n_decode_rows += part.decodes ? 1 : 0;
  pace_.record(n_decode_rows, plan_.batch.n_rows() - n_decode_rows, seconds);
}

/// The sequence has its rows, and its tenant was served: what is computed again is not the tenant's doing.
void Scheduler::advance(const PlannedRows& part) {
  Sequence& sequence = *part.sequence;
  const int64_t n_unread = sequence.n_unread();
  const int64_t n_once_computed = sequence.n_once_computed;
  sequence.advance(part.n);
  const int64_t n_new = sequence.n_once_computed - n_once_computed;
  if (n_new == 0) return;
  const std::lock_guard lock(queue_mutex_);
  queue_.serve(sequence.request.tenant, n_new, n_unread - sequence.n_unread());
}

void Scheduler::begin_if_new(Sequence& sequence) {
  if (sequence.summary.first_computed) return;
  sequence.summary.first_computed = planned_;
  meter_.update([&](EngineCounters& counters) { counters.prompt_tokens += sequence.n_prompt(); });
}

void Scheduler::finish(Sequence& sequence, FinishReason reason, std::optional<Error> error) {
  sequence.summary.finished = clock_();
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.leave(sequence.request.tenant, sequence.n_unread());
    --n_running_;
  }
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

void Scheduler::finish(const QueuedRequest& queued) {
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
