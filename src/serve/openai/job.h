#pragma once

// What a body asks for, in the engine's terms.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"

namespace soli::openai {

enum class Endpoint { kChat, kCompletions };

/// How much of the router's choices an answer shows.
enum class RoutingDetail { kNone, kSummary, kTokens };

/// A request for text: one request of the engine for each choice.
struct TextJob {
  Endpoint endpoint = Endpoint::kChat;
  /// Choice i is requests[i]; it continues prompt i / n.
  std::vector<Request> requests = {};
  int64_t n = 1;  // choices for each prompt
  bool stream = false;
  bool include_usage = false;           // a last chunk with the usage
  std::vector<std::string> stops = {};  // none of them empty
  bool logprobs = false;
  int64_t n_top_logprobs = 0;
  bool echo = false;  // the prompt is the beginning of the text
  RoutingDetail routing = RoutingDetail::kNone;
  int64_t experts_per_token = 0;  // that are used; 0: a model without experts
  bool show_experts_per_token = false;
  bool show_policy = false;  // that of its requests
};

/// A request for embeddings: one request of the engine for each input.
struct EmbeddingJob {
  std::vector<Request> requests = {};
  bool base64 = false;  // little-endian floats
};

}  // namespace soli::openai
