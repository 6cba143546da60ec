#pragma once

#include "serve/openai/choice_text.h"
#include "serve/openai/json_text.h"

namespace soli::openai {

/// What stands for minus infinity and its like in an answer, as OpenAI documents it.
inline constexpr double kLeastLogprob = -9999;

/// An element of logprobs.content of a chat: {"token","logprob","bytes","top_logprobs"}. The list holds the
/// most likely tokens, and the token itself where it is not one of them; it is empty if `n_top` is 0.
Json chat_logprob(const Tokenizer& tokenizer, const TextToken& token, int64_t n_top);

/// logprobs of a completion: {"tokens","token_logprobs","top_logprobs","text_offset"}.
Json empty_completion_logprobs();
/// Adds one token to it. Tokens are named by their text, or "bytes:\xNN.." where that is not UTF-8; of
/// several with one name, the best is shown, or the token itself.
void add_completion_logprob(Json& logprobs, const Tokenizer& tokenizer, const TextToken& token);

}  // namespace soli::openai
