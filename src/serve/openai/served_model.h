#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "format/chat_template.h"
#include "format/tokenizer.h"
#include "model/parameters.h"
#include "model/routing_policy.h"
#include "model/spec.h"
#include "serve/openai/json_text.h"
#include "serve/policy_allowance.h"

namespace soli::openai {

/// How much one request may ask for.
struct ApiLimits {
  JsonLimits json = {};
  int64_t choices = 16;         // n
  int64_t prompts = 64;         // of one completion request
  int64_t total_choices = 128;  // n times prompts
  int64_t inputs = 2048;        // of one embedding request
  int64_t stop_strings = 16;
  int64_t stop_bytes = 1024;  // of one stop string
  int64_t top_logprobs = 20;
  int64_t logit_bias = 1024;      // entries
  int64_t experts_per_token = 0;  // 0: the model's own k
};

/// What the translation needs to know of a model. All pointers are borrowed and outlive every use; all of it
/// is immutable, so any thread may read it.
struct ServedModel {
  std::string id;       // its name in requests and answers
  int64_t created = 0;  // seconds since 1970
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: the model has none, and takes no chats
  std::string chat_template_text;               // of that template
  int64_t context_length = 0;                   // positions, of prompt and answer together
  const ModelSpec* spec = nullptr;
  const ParameterCounts* parameters = nullptr;  // for what a request activated
  /// False where the server was asked to read less from the disk than the model's own answer takes, or to
  /// steer the routing.
  bool exact = true;
  RoutingPolicy policy = {};                 // of every request, where it sets nothing else
  serve::PolicyAllowance allow_policy = {};  // what requests may set
  ApiLimits limits = {};
};

/// What the server knows of a request beside its body.
struct Caller {
  uint64_t seed = 0;              // for a request that names none: a random number
  int64_t experts_per_token = 0;  // the limit of this caller's key; 0: the server's
  /// What this caller's key may set, of what the server allows; else all of that.
  std::optional<serve::PolicyAllowance> allow_policy = {};
};

}  // namespace soli::openai
