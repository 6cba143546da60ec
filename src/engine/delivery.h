#pragma once

#include <cstdint>
#include <span>

#include "engine/clock.h"
#include "engine/counters.h"
#include "engine/page_routing.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace soli {

/// Makes of what a step computed what the clients get, and what becomes of the sequences.
class Delivery {
 public:
  /// `routing` is null where none is kept.
  Delivery(int64_t context_length, const RoutingLayout* routing, EngineClock clock, EngineMeter& meter)
      : context_length_(context_length), routing_(routing), clock_(std::move(clock)), meter_(meter) {}

  /// Before a step is planned: hands over the routing of prompt tokens that are computed, or came from the
  /// prefix cache, as far as the stream has room. Says whether there was any.
  bool deliver_kept_routing(Sequence& sequence) const;
  /// The logits after the token at `position`: tells of the prompt, and draws a token after the last one.
  void on_logits(Sequence& sequence, int64_t position, std::span<const float> logits,
                 Scheduler::Outcome& outcome) const;
  /// The final hidden state of the token at `position`, of a sequence that wants an embedding.
  void on_hidden(Sequence& sequence, int64_t position, std::span<const float> hidden,
                 Scheduler::Outcome& outcome) const;

 private:
  void deliver_prompt_token(Sequence& sequence, std::vector<float> logits) const;
  void deliver_prompt_row(Sequence& sequence, int64_t position, std::span<const float> logits) const;
  void draw_token(Sequence& sequence, std::span<const float> logits, Scheduler::Outcome& outcome) const;
  void deliver_token(Sequence& sequence, StreamEvent event) const;
  TokenRouting routing_of(const Sequence& sequence, int64_t position) const;

  const int64_t context_length_;
  const RoutingLayout* const routing_;
  const EngineClock clock_;
  EngineMeter& meter_;
};

}  // namespace soli
