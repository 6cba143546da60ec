#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "cli/interrupt.h"
#include "engine/engine.h"
#include "format/tokenizer.h"

namespace soli::cli {

/// The stream's next event; runs steps of the engine until there is one, with `before_step` before each: a
/// long prompt takes many. Fails with kLimit where the engine has nothing that it can do, since the memory
/// limit has no room for more keys and values.
Result<StreamEvent> next_event(Engine& engine, Stream& stream, FunctionRef<void()> before_step);

/// What one request gave.
struct Generation {
  RequestId request = 0;
  std::vector<int32_t> tokens;  // generated ones, the end token included
  std::string text;             // of those, valid UTF-8
  FinishReason reason = FinishReason::kCancelled;
  int64_t n_prompt = 0;
  int64_t n_computed = 0;      // prompt and generated tokens that went through the model
  double prefill_seconds = 0;  // until the first generated token, or the end
  double decode_seconds = 0;   // from the first generated token to the last

  int64_t n_prefilled() const;  // fewer than the prompt has, if interrupted in it
  double prefill_tokens_per_second() const;
  double decode_tokens_per_second() const;  // the first token belongs to the prefill
};

/// Runs one request to its end and hands on its text piece by piece. Ctrl-C ends it with kCancelled. Fails
/// where the engine refuses the request, or when it fails underway.
Result<Generation> generate(Engine& engine, const Tokenizer& tokenizer, Request request,
                            const InterruptGuard& interrupt, FunctionRef<void(std::string_view)> on_text);

/// "end of text", "token limit", "context full", "interrupted", "failed".
const char* describe(FinishReason reason);
/// The same for JSON: "end_token", "max_new_tokens", "context_full", "interrupted", "failed".
const char* name_of(FinishReason reason);

}  // namespace soli::cli
