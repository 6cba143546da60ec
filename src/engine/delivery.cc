#include "engine/delivery.h"

#include <algorithm>
#include <utility>

namespace soli {
namespace {

bool wants_logprob(Detail detail) { return detail == Detail::kLogprob || detail == Detail::kTopLogprobs; }

/// What a client wants to know of the event's token, by the logits that belong to it.
void add_detail(StreamEvent& event, Detail detail, int64_t n_top, std::span<const float> logits) {
  if (detail == Detail::kLogits) event.logits.assign(logits.begin(), logits.end());
  if (wants_logprob(detail)) event.logprob = log_probability(logits, event.token);
  if (detail == Detail::kTopLogprobs) event.top_logprobs = top_log_probabilities(logits, n_top);
}

}  // namespace

TokenRouting Delivery::routing_of(const Sequence& sequence, int64_t position) const {
  return routing_->read(sequence.kv.routing(position), position);
}

bool Delivery::deliver_kept_routing(Sequence& sequence) const {
  const Request& request = sequence.request;
  if (!request.want_routing || request.prompt_detail != Detail::kNone) return false;
  const int64_t before = sequence.n_prompt_delivered;
  const int64_t end = std::min(sequence.n_computed, sequence.n_prompt());
  while (sequence.n_prompt_delivered < end && !sequence.stream->is_full()) deliver_prompt_token(sequence, {});
  return sequence.n_prompt_delivered > before;
}

void Delivery::on_logits(Sequence& sequence, int64_t position, std::span<const float> logits,
                         Scheduler::Outcome& outcome) const {
  if (sequence.request.prompt_detail != Detail::kNone) deliver_prompt_row(sequence, position, logits);
  if (position != sequence.n_tokens() - 1) return;
  if (sequence.request.want_routing) {  // few are left: Scheduler::n_ready
    while (sequence.n_prompt_delivered < sequence.n_prompt()) deliver_prompt_token(sequence, {});
  }
  draw_token(sequence, logits, outcome);
}

void Delivery::deliver_prompt_token(Sequence& sequence, std::vector<float> logits) const {
  const int64_t at = sequence.n_prompt_delivered++;
  StreamEvent event = {.kind = StreamEvent::Kind::kPromptToken,
                       .token = sequence.tokens[static_cast<size_t>(at)],
                       .position = at,
                       .logprob = std::exchange(sequence.next_logprob, {}),
                       .top_logprobs = std::exchange(sequence.next_top_logprobs, {}),
                       .logits = std::move(logits)};
  if (sequence.request.want_routing) event.routing = routing_of(sequence, at);
  sequence.stream->push(std::move(event));
}

/// Tells the client of the prompt token at `position`, once, and remembers what this row says of the next.
void Delivery::deliver_prompt_row(Sequence& sequence, int64_t position, std::span<const float> logits) const {
  if (position >= sequence.n_prompt()) return;
  const Request& request = sequence.request;
  const bool is_told = request.prompt_detail == Detail::kLogits;
  if (position == sequence.n_prompt_delivered)
    deliver_prompt_token(sequence,
                         is_told ? std::vector<float>(logits.begin(), logits.end()) : std::vector<float>());
  const int64_t next = position + 1;
  if (!wants_logprob(request.prompt_detail) || next != sequence.n_prompt_delivered ||
      next == sequence.n_prompt())
    return;
  StreamEvent detail = {.token = sequence.tokens[static_cast<size_t>(next)]};
  add_detail(detail, request.prompt_detail, request.n_top_logprobs, logits);
  sequence.next_logprob = detail.logprob;
  sequence.next_top_logprobs = std::move(detail.top_logprobs);
}

void Delivery::draw_token(Sequence& sequence, std::span<const float> logits,
                          Scheduler::Outcome& outcome) const {
  const Request& request = sequence.request;
  if (sequence.n_generated() == request.max_new_tokens) {  // only where that is 0
    outcome.finish = FinishReason::kMaxNewTokens;
    return;
  }
  if (sequence.n_tokens() >= context_length_) {
    outcome.finish = FinishReason::kContextFull;
    return;
  }
  const int32_t token = sequence.sampler.sample(logits, sequence.tokens);
  StreamEvent event = {.kind = StreamEvent::Kind::kToken, .token = token, .position = sequence.n_tokens()};
  add_detail(event, request.generated_detail, request.n_top_logprobs, logits);
  if (request.want_routing) event.routing = routing_of(sequence, sequence.n_tokens() - 1);
  deliver_token(sequence, std::move(event));
  outcome.new_tokens.push_back(token);
  const auto& ends = request.end_tokens;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
    outcome.finish = FinishReason::kEndToken;
  } else if (sequence.n_generated() + 1 == request.max_new_tokens) {
    outcome.finish = FinishReason::kMaxNewTokens;
  } else if (sequence.n_tokens() + 1 >= context_length_) {
    outcome.finish = FinishReason::kContextFull;
  }
}

void Delivery::deliver_token(Sequence& sequence, StreamEvent event) const {
  if (!sequence.summary.first_token) sequence.summary.first_token = clock_();
  ++sequence.summary.n_generated;
  meter_.update([](EngineCounters& counters) { ++counters.generated_tokens; });
  sequence.stream->push(std::move(event));
}

void Delivery::on_hidden(Sequence& sequence, int64_t position, std::span<const float> hidden,
                         Scheduler::Outcome& outcome) const {
  if (position >= sequence.n_pooled) {  // not while a token is computed again
    sequence.pooled.resize(hidden.size());
    for (size_t i = 0; i < hidden.size(); ++i) sequence.pooled[i] += static_cast<double>(hidden[i]);
    sequence.n_pooled = position + 1;
  }
  if (position != sequence.n_prompt() - 1) return;
  while (sequence.request.want_routing && sequence.n_prompt_delivered < sequence.n_prompt())
    deliver_prompt_token(sequence, {});
  const double n = sequence.request.task == Task::kEmbedMean ? static_cast<double>(sequence.n_prompt()) : 1;
  StreamEvent event = {.kind = StreamEvent::Kind::kEmbedding, .position = position};
  for (const double sum : sequence.pooled) event.embedding.push_back(static_cast<float>(sum / n));
  sequence.stream->push(std::move(event));
  outcome.finish = FinishReason::kMaxNewTokens;
}

}  // namespace soli
