#pragma once

// The text of one choice, as it may be sent: whole characters, cut at the first stop string, and which token
// stands where in it.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "format/detokenizer.h"

namespace soli::openai {

/// A token of a text, with what is known of it.
struct TextToken {
  int32_t token = 0;
  std::optional<double> logprob = {};           // absent for the first one of a prompt
  std::vector<TokenLogprob> top_logprobs = {};  // may lack the token itself
  int64_t offset = 0;                           // characters of the text before it; set by ChoiceText
};

/// What may be sent at one time. A token goes with the last of its characters, or before.
struct TextPiece {
  std::string text;  // UTF-8
  std::vector<TextToken> tokens;

  bool empty() const { return text.empty() && tokens.empty(); }
};

class ChoiceText {
 public:
  /// The tokenizer is borrowed. `begins_text`: the first token begins a text, and so does not follow a
  /// prompt.
  ChoiceText(const Tokenizer& tokenizer, std::vector<std::string> stops, bool begins_text);

  /// A token of an echoed prompt, which no stop string ends.
  TextPiece push_prompt(TextToken token);
  TextPiece push(TextToken token);
  /// What was held back, when the choice ends otherwise than by a stop string.
  TextPiece finish();
  /// Whether a stop string was found. Nothing follows then.
  bool stopped() const { return stops_.stopped(); }

 private:
  /// A token whose text has yet to be sent.
  struct Waiting {
    TextToken token;
    size_t begin;               // byte of the whole text at which the character begins that it is part of
    std::optional<size_t> end;  // byte after its last character; absent while that is incomplete
  };

  void note(TextToken token);
  void extend(const std::string& chunk, bool is_last);
  TextPiece release(std::string text);

  Detokenizer detokenizer_;
  StopMatcher stops_;
  std::deque<Waiting> waiting_;
  size_t n_bytes_ = 0;  // of the text as the detokenizer gave it
  int64_t n_characters_ = 0;
  size_t n_sent_ = 0;  // bytes
};

}  // namespace soli::openai
