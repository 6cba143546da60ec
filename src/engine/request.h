#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"
#include "model/batch.h"

namespace soli {

/// What a client wants to know of each token beside the token.
enum class Detail {
  kNone,
  kLogprob,      // ln of the token's probability under the raw distribution before it
  kTopLogprobs,  // that, and the n_top_logprobs most likely tokens of that distribution
  kLogits,       // the whole distribution: the logits at the token's position
};

struct Request {
  std::vector<int32_t> prompt = {};  // at least one token
  int64_t max_new_tokens = -1;       // -1: until an end token or the end of the context; 0: the prompt only
  /// Generation stops after one of these; it is delivered, and marked as the end.
  std::vector<int32_t> end_tokens = {};
  SamplingParams sampling = {};
  RoutingPolicy policy = {};
  int32_t adapter = -1;
  Detail prompt_detail = Detail::kNone;  // not kNone: the prompt's tokens are delivered too
  Detail generated_detail = Detail::kNone;
  int64_t n_top_logprobs = 0;  // of each token with kTopLogprobs
};

enum class FinishReason { kEndToken, kMaxNewTokens, kContextFull, kCancelled, kFailed };

/// One delivery of a stream.
struct StreamEvent {
  enum class Kind { kPromptToken, kToken, kFinished };
  Kind kind = Kind::kToken;
  int32_t token = 0;
  int64_t position = 0;
  /// kLogprob, kTopLogprobs: of this token, given those before it. Absent for the first token of a prompt.
  std::optional<double> logprob = {};
  /// kTopLogprobs: what was most likely in this token's place, the best first, the lower id on a tie. Empty
  /// for the first token of a prompt.
  std::vector<TokenLogprob> top_logprobs = {};
  /// kLogits: for a prompt token, the logits after it; for a generated token, those that it was drawn from.
  std::vector<float> logits = {};
  FinishReason reason = FinishReason::kCancelled;  // kFinished
  std::optional<Error> error = {};                 // kFinished with kFailed
};

}  // namespace soli
