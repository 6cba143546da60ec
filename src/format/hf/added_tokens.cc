#include "format/hf/added_tokens.h"

#include <optional>
#include <utility>

#include "base/utf8.h"
#include "format/hf/pattern.h"
#include "format/hf/unicode.h"
#include "format/tokenizer_spec.h"

namespace soli::hf {
namespace {

/// Whether a character is part of a word, as Rust's crate regex sees it.
class WordCharacters {
 public:
  bool contains(std::string_view character) {
    static const Pattern pattern = Pattern::of_regex(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}])");
    if (!scratch_) scratch_.emplace(character.size());
    matches_.clear();
    return pattern.find_all(character, *scratch_, matches_) && !matches_.empty();
  }

 private:
  std::optional<RegexScratch> scratch_;
  std::vector<TextSpan> matches_;
};

std::string_view last_character(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && (static_cast<uint8_t>(text[--begin]) & 0xC0) == 0x80) {
  }
  return text.substr(begin);
}

Result<AddedToken> read_added_token(const JsonValue& value, int64_t max_id) {
  AddedToken token;
  SOLI_ASSIGN_OR_RETURN(const JsonValue id, value.at("id"));
  SOLI_ASSIGN_OR_RETURN(const int64_t number, id.integer(0, max_id));
  token.id = static_cast<int32_t>(number);
  SOLI_ASSIGN_OR_RETURN(token.content, value.text_at("content"));
  if (token.content.empty() || token.content.size() > kMaxSpecialTokenBytes) {
    return fail(token.content.empty() ? ErrorKind::kMalformed : ErrorKind::kLimit,
                "{}.content has {} bytes; 1 to {} are allowed", value.path(), token.content.size(),
                kMaxSpecialTokenBytes);
  }
  SOLI_ASSIGN_OR_RETURN(token.special, value.flag_or("special", false));
  SOLI_ASSIGN_OR_RETURN(token.normalized, value.flag_or("normalized", !token.special));
  SOLI_ASSIGN_OR_RETURN(token.single_word, value.flag_or("single_word", false));
  SOLI_ASSIGN_OR_RETURN(token.strip_left, value.flag_or("lstrip", false));
  SOLI_ASSIGN_OR_RETURN(token.strip_right, value.flag_or("rstrip", false));
  return token;
}

bool touches_word(WordCharacters& words, std::string_view before, std::string_view after) {
  if (!before.empty() && words.contains(last_character(before))) return true;
  return !after.empty() && words.contains(after.substr(0, utf8_front(after).bytes));
}

}  // namespace

Result<std::vector<AddedToken>> read_added_tokens(const JsonValue& list, int64_t max_id) {
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.items(kMaxAddedTokens));
  std::vector<AddedToken> out;
  for (const JsonValue& item : items) {
    SOLI_ASSIGN_OR_RETURN(AddedToken token, read_added_token(item, max_id));
    out.push_back(std::move(token));
  }
  return out;
}

Result<AddedTokenFinder> AddedTokenFinder::create(const std::vector<AddedToken>& tokens,
                                                  const Normalizer& normalizer) {
  AddedTokenFinder finder;
  std::vector<std::string> raw, normalized;
  // Where two have one text after normalization, the first counts; special ones come first.
  for (const bool special : {true, false}) {
    for (const AddedToken& token : tokens) {
      if (token.special != special) continue;
      if (!token.normalized) {
        finder.raw_.tokens.push_back(token);
        raw.push_back(token.content);
        continue;
      }
      SOLI_ASSIGN_OR_RETURN(std::string text, normalizer.apply(token.content));
      finder.normalized_.tokens.push_back(token);
      normalized.push_back(std::move(text));
    }
  }
  finder.raw_.texts = LongestPrefix(std::move(raw));
  finder.normalized_.texts = LongestPrefix(std::move(normalized));
  return finder;
}

std::vector<TextFragment> AddedTokenFinder::split(std::string_view text, bool is_normalized,
                                                  bool parse_special) const {
  const Group& group = is_normalized ? normalized_ : raw_;
  std::vector<TextFragment> out;
  WordCharacters words;
  uint32_t done = 0;
  size_t blank_end = 0;  // end of the last white space that was looked at: it is gone over once
  const auto add_rest = [&](uint32_t end) {
    if (end > done) out.push_back({{done, end}, -1});
  };
  for (size_t at = 0; at < text.size() && !group.texts.empty();) {
    const int64_t found = group.texts.find(text.substr(at), [](size_t) { return true; });
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = group.tokens[static_cast<size_t>(found)];
    size_t begin = at;
    size_t end = at + group.texts.text(static_cast<size_t>(found)).size();
    at = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && touches_word(words, text.substr(0, begin), text.substr(end))) continue;
    if (token.strip_left && begin > done) begin -= trailing_white_space(text.substr(done, begin - done));
    if (token.strip_right) {
      if (end >= blank_end) blank_end = end + leading_white_space(text.substr(end));
      end = blank_end;
    }
    add_rest(static_cast<uint32_t>(begin));
    out.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, token.id});
    done = static_cast<uint32_t>(end);
  }
  add_rest(static_cast<uint32_t>(text.size()));
  return out;
}

}  // namespace soli::hf
