#include "serve/openai/choice_text.h"

#include <algorithm>
#include <utility>

namespace soli::openai {
namespace {

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

ChoiceText::ChoiceText(const Tokenizer& tokenizer, std::vector<std::string> stops, bool begins_text)
    : detokenizer_(tokenizer, {.render_special = false, .begins_text = begins_text}),
      stops_(std::move(stops)) {}

void ChoiceText::note(TextToken token) {
  token.offset = n_characters_;
  waiting_.push_back({std::move(token), n_bytes_, {}});
}

/// Takes over text that the newest token completed; it is whole unless more of its last character is to come.
void ChoiceText::extend(const std::string& chunk, bool is_whole) {
  n_bytes_ += chunk.size();
  n_characters_ += count_characters(chunk);
  if (chunk.empty() && !is_whole) return;
  // What the detokenizer still holds begins within the newest token: the others are complete.
  for (auto waiting = waiting_.rbegin(); waiting != waiting_.rend() && !waiting->end; ++waiting) {
    if (is_whole || waiting != waiting_.rbegin()) waiting->end = n_bytes_;
  }
}

TextPiece ChoiceText::release(std::string text) {
  n_sent_ += text.size();
  TextPiece piece{std::move(text), {}};
  if (stops_.stopped()) {
    // Of the tokens in the stop string, one that begins before it has a part in the text.
    while (!waiting_.empty() && waiting_.front().begin < n_sent_) {
      piece.tokens.push_back(std::move(waiting_.front().token));
      waiting_.pop_front();
    }
    waiting_.clear();
    return piece;
  }
  while (!waiting_.empty() && waiting_.front().end && *waiting_.front().end <= n_sent_) {
    piece.tokens.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
  return piece;
}

TextPiece ChoiceText::push_prompt(TextToken token) {
  const int32_t id = token.token;
  note(std::move(token));
  std::string chunk = detokenizer_.push(id);
  extend(chunk, !detokenizer_.pending());
  return release(std::move(chunk));
}

TextPiece ChoiceText::push(TextToken token) {
  if (stopped()) return {};
  const int32_t id = token.token;
  note(std::move(token));
  const std::string chunk = detokenizer_.push(id);
  extend(chunk, !detokenizer_.pending());
  return release(stops_.push(chunk));
}

TextPiece ChoiceText::finish() {
  if (stopped()) return {};
  const std::string chunk = detokenizer_.flush();
  extend(chunk, true);
  std::string text = stops_.push(chunk);
  if (!stops_.stopped()) text += stops_.flush();
  return release(std::move(text));
}

}  // namespace soli::openai
