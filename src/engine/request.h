#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/clock.h"
#include "engine/sampler.h"
#include "engine/token_routing.h"
#include "model/batch.h"

namespace soli {

/// What a client wants to know of each token beside the token.
enum class Detail {
  kNone,
  kLogprob,      // ln of the token's probability under the raw distribution before it
  kTopLogprobs,  // that, and the n_top_logprobs most likely tokens of that distribution
  kLogits,       // the whole distribution: the logits at the token's position
};

/// What a request is for.
enum class Task {
  kGenerate,
  kEmbedMean,  // one vector: the mean of the prompt's final hidden states, after the output norm
  kEmbedLast,  // the final hidden state of the prompt's last token
};

struct Request {
  std::vector<int32_t> prompt = {};  // at least one token
  int64_t max_new_tokens = -1;       // -1: until an end token or the end of the context; 0: the prompt only
  /// Generation stops after one of these; it is delivered, and marked as the end.
  std::vector<int32_t> end_tokens = {};
  SamplingParams sampling = {};
  RoutingPolicy policy = {};
  /// What the engine's model makes of the policy: Engine::submit() sets it.
  std::shared_ptr<const Steering> steering = {};
  int32_t adapter = -1;
  Detail prompt_detail = Detail::kNone;  // not kNone: the prompt's tokens are delivered too
  Detail generated_detail = Detail::kNone;
  int64_t n_top_logprobs = 0;   // of each token with kTopLogprobs
  Task task = Task::kGenerate;  // an embedding generates no token, whatever max_new_tokens says
  /// Each token comes with its routing, the prompt's tokens too. Needs EngineOptions::keep_routing.
  bool want_routing = false;
  /// False: takes no pages from the prefix cache and leaves none.
  bool use_prefix_cache = true;
  uint32_t tenant = 0;   // whose fair share of the engine this request uses
  int32_t priority = 0;  // among the waiting requests of its tenant: the highest goes first

  /// Whether something is made of every token of the prompt, so that none can be left out.
  bool needs_all_rows() const { return prompt_detail != Detail::kNone || task == Task::kEmbedMean; }
};

enum class FinishReason { kEndToken, kMaxNewTokens, kContextFull, kCancelled, kFailed };
inline constexpr size_t kFinishReasons = 5;

/// What became of a request, with its end.
struct RequestSummary {
  int64_t n_prompt = 0;
  int64_t n_cached = 0;  // of the prompt's tokens, those that came from the prefix cache
  int64_t n_generated = 0;
  int64_t n_preempted = 0;  // times that its pages were taken away
  EngineTime submitted = {};
  std::optional<EngineTime> first_computed = {};  // the step began that computed a token of it
  std::optional<EngineTime> first_token = {};     // delivered
  EngineTime finished = {};
};

/// One delivery of a stream.
struct StreamEvent {
  enum class Kind { kPromptToken, kToken, kEmbedding, kFinished };
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
  /// With want_routing: for a prompt token, its own; for a generated token, that of the token before it, from
  /// whose logits it was drawn. So the last prompt token's comes twice, and the last generated token, which
  /// is not computed, has none of its own.
  std::optional<TokenRouting> routing = {};
  std::vector<float> embedding = {};  // kEmbedding: [hidden], not normalised
  RequestSummary summary = {};        // kFinished
};

}  // namespace soli
