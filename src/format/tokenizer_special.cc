#include "format/tokenizer_special.h"

#include <algorithm>
#include <queue>
#include <tuple>

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
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(id);
    if (text.empty() || !vocabulary.matched_as_special(id)) continue;
    if (text.size() > kMaxSpecialTokenBytes) {
      return fail(ErrorKind::kLimit, "special token {} has {} bytes; {} are allowed", id, text.size(),
                  kMaxSpecialTokenBytes);
    }
    const bool always = vocabulary.matched_always(id) && !vocabulary.hidden(id);
    finder.any_always_ |= always;
    finder.tokens_.push_back({text, id, always, strip_right && !keeps_blanks(text)});
  }
  std::sort(finder.tokens_.begin(), finder.tokens_.end(),
            [](const Token& a, const Token& b) { return a.text != b.text ? a.text < b.text : a.id < b.id; });
  for (uint32_t i = 0; i < finder.tokens_.size(); ++i) {
    Range& range = finder.first_byte_[static_cast<uint8_t>(finder.tokens_[i].text.front())];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
  return finder;
}

int64_t SpecialTokenFinder::longest_at_front(std::string_view text, bool parse_special) const {
  Range range = first_byte_[static_cast<uint8_t>(text.front())];
  int64_t longest = -1;
  // Invariant: the tokens of the range have the first `depth` bytes of the text in common, so those that end
  // there come first.
  for (size_t depth = 1; range.begin < range.end; ++depth) {
    for (; range.begin < range.end && tokens_[range.begin].text.size() == depth; ++range.begin) {
      const Token& token = tokens_[range.begin];
      const bool same = longest >= 0 && tokens_[static_cast<size_t>(longest)].text.size() == depth;
      if ((parse_special || token.always) && !same) longest = range.begin;
    }
    if (range.begin == range.end || depth == text.size()) break;
    const auto next = static_cast<uint8_t>(text[depth]);
    const auto byte = [&](uint32_t i) { return static_cast<uint8_t>(tokens_[i].text[depth]); };
    if (byte(range.begin) == next && byte(range.end - 1) == next) continue;
    const auto first = tokens_.begin() + range.begin, last = tokens_.begin() + range.end;
    const auto low = std::partition_point(
        first, last, [&](const Token& t) { return static_cast<uint8_t>(t.text[depth]) < next; });
    const auto high = std::partition_point(
        low, last, [&](const Token& t) { return static_cast<uint8_t>(t.text[depth]) == next; });
    range = {static_cast<uint32_t>(low - tokens_.begin()), static_cast<uint32_t>(high - tokens_.begin())};
  }
  return longest;
}

std::vector<TextFragment> SpecialTokenFinder::split(std::string_view text, bool parse_special) const {
  std::vector<TextFragment> fragments;
  const auto size = static_cast<uint32_t>(text.size());
  std::vector<Candidate> candidates;
  const auto consider = [&](uint32_t begin, uint32_t room, auto&& keep) {
    const int64_t token = longest_at_front(text.substr(begin, room), parse_special);
    if (token < 0) return;
    const Token& found = tokens_[static_cast<size_t>(token)];
    keep(Candidate{begin, static_cast<uint32_t>(found.text.size()), static_cast<uint32_t>(token), found.id});
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
