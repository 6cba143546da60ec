#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experts/access_trace.h"

namespace soli {

struct TraceShape {
  int64_t n_layers = 8;
  int64_t n_experts = 32;  // per layer
  int64_t experts_per_token = 4;
  int64_t n_tokens = 4000;
  uint64_t seed = 1;
};

/// Every set of experts is as likely as any other, whatever came before.
AccessTrace uniform_trace(const TraceShape& shape);
/// Chances of a layer's experts fall as 1 / rank^skew; which expert has which rank never changes.
AccessTrace zipf_trace(const TraceShape& shape, double skew);
/// The same, and with every token two experts of neighbouring or any ranks change places in some layers.
AccessTrace drifting_trace(const TraceShape& shape, double skew, double swaps_per_token);
/// A few topics with ranks of their own; each holds for `tokens_per_topic` tokens.
AccessTrace topic_trace(const TraceShape& shape, double skew, int64_t n_topics, int64_t tokens_per_topic);

/// Chats on such topics: each begins with a prompt whose rows come in one visit per layer, and goes on row by
/// row.
AccessTrace chat_trace(const TraceShape& shape, double skew, int64_t n_topics, int64_t prompt_tokens,
                       int64_t answer_tokens);

}  // namespace soli
