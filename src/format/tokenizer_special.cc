#include "format/tokenizer_special.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

namespace soli {
namespace {

/// A token that could stand at a place of the text.
struct Candidate {
  uint32_t begin;
  uint32_t bytes;
  uint32_t token;  // index
  int32_t id;

  /// Longest first; among tokens of one length the lowest id, then from the left.
  bool operator<(const Candidate& other) const {
    return std::tuple(other.bytes, id, begin) > std::tuple(bytes, other.id, other.begin);
  }
};

bool is_ascii_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Phi-3's tokenizer gives these no right strip.
bool keeps_blanks(std::string_view text) {
  return text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
}

}  // namespace

Result<SpecialTokenFinder> SpecialTokenFinder::create(const Vocabulary& vocabulary, bool strip_right) {
  SpecialTokenFinder finder;
  std::vector<std::string> texts;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& text = vocabulary.text(id);
    if (text.empty() || !vocabulary.matched_as_special(id)) continue;
    if (text.size() > kMaxSpecialTokenBytes) {
      return fail(ErrorKind::kLimit, "special token {} has {} bytes; {} are allowed", id, text.size(),
                  kMaxSpecialTokenBytes);
    }
    const bool always = vocabulary.matched_always(id) && !vocabulary.hidden(id);
    finder.any_always_ |= always;
    finder.tokens_.push_back(
        {id, static_cast<uint32_t>(text.size()), always, strip_right && !keeps_blanks(text)});
    texts.push_back(text);
  }
  finder.texts_ = LongestPrefix(std::move(texts));
  return finder;
}

std::vector<TextFragment> SpecialTokenFinder::split(std::string_view text, bool parse_special) const {
  std::vector<TextFragment> fragments;
  const auto size = static_cast<uint32_t>(text.size());
  std::vector<Candidate> candidates;
  const auto consider = [&](uint32_t begin, uint32_t room, auto&& keep) {
    const int64_t token = texts_.find(text.substr(begin, room),
                                      [&](size_t index) { return parse_special || tokens_[index].always; });
    if (token < 0) return;
    const Token& found = tokens_[static_cast<size_t>(token)];
    keep(Candidate{begin, found.bytes, static_cast<uint32_t>(token), found.id});
  };
  if (parse_special ? !tokens_.empty() : any_always_) {
    for (uint32_t i = 0; i < size; ++i) {
      consider(i, size - i, [&](const Candidate& c) { candidates.push_back(c); });
    }
  }
  std::vector<bool> taken(candidates.empty() ? 0 : text.size());
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(candidates));
  std::vector<TextFragment> tokens;
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    uint32_t room = 0;
    while (room < c.bytes && !taken[c.begin + room]) ++room;
    if (room == 0) continue;
    if (room < c.bytes) {
      consider(c.begin, room, [&](const Candidate& shorter) { queue.push(shorter); });
      continue;
    }
    uint32_t end = c.begin + c.bytes;
    if (tokens_[c.token].strip_right) {
      while (end < size && !taken[end] && is_ascii_blank(text[end])) ++end;
    }
    std::fill(taken.begin() + c.begin, taken.begin() + end, true);
    tokens.push_back({{c.begin, end}, c.id});
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const TextFragment& a, const TextFragment& b) { return a.span.begin < b.span.begin; });
  uint32_t done = 0;
  for (const TextFragment& token : tokens) {
    if (token.span.begin > done) fragments.push_back({{done, token.span.begin}, -1});
    fragments.push_back(token);
    done = token.span.end;
  }
  if (done < size) fragments.push_back({{done, size}, -1});
  return fragments;
}

}  // namespace soli
