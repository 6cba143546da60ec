#pragma once

#include <string>

#include "serve/openai/choice_text.h"
#include "serve/openai/job.h"
#include "serve/openai/json_text.h"

namespace soli::openai {

/// What stands for minus infinity and its like in an answer, as OpenAI documents it.
inline constexpr double kLeastLogprob = -9999;

/// The "logprobs" of a choice, or of a part of it. Kept as text, which takes far less memory than JSON
/// values.
///
/// Of a chat: {"content":[{"token","logprob","bytes","top_logprobs"}],"refusal":null}. Of a completion:
/// {"tokens","token_logprobs","top_logprobs","text_offset"}, where tokens are named by their text, or
/// "bytes:\xNN.." where that is not UTF-8; of several with one name, the best is shown, or the token itself.
class LogprobList {
 public:
  /// The tokenizer is borrowed. The `n_top` most likely tokens are shown, and the token itself where it is
  /// not one of them; in a chat none if it is 0.
  LogprobList(const Tokenizer& tokenizer, Endpoint endpoint, int64_t n_top)
      : tokenizer_(&tokenizer), endpoint_(endpoint), n_top_(n_top) {}

  void add(const TextToken& token);
  std::string json() const;

 private:
  void add_to_chat(const TextToken& token);
  void add_to_completion(const TextToken& token);

  const Tokenizer* tokenizer_;
  Endpoint endpoint_;
  int64_t n_top_;
  // Elements of the lists, comma-separated.
  std::string content_;
  std::string tokens_;
  std::string token_logprobs_;
  std::string top_logprobs_;
  std::string text_offsets_;
};

}  // namespace soli::openai
