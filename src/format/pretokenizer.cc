#include "format/pretokenizer.h"

#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace soli {

Result<Pretokenizer> Pretokenizer::create(std::string_view name) {
  const PretokenizerEntry* entry = find_pretokenizer(name);
  if (entry == nullptr) {
    return fail(ErrorKind::kUnsupported, "pre-tokenizer '{}' is not known; known are: {}", printable(name),
                pretokenizer_names());
  }
  Pretokenizer pretokenizer(entry);
  for (const std::string_view pattern : entry->patterns) {
    Result<Regex> regex = Regex::compile(pattern);
    SOLI_CHECK(regex.has_value(), "{}: {}", name, regex.error().message);
    pretokenizer.patterns_.push_back(*std::move(regex));
  }
  return pretokenizer;
}

Result<std::vector<TextSpan>> Pretokenizer::split(std::string_view text) const {
  std::vector<TextSpan> words, next, matches;
  if (text.empty()) return words;
  RegexScratch scratch(text.size());
  words.push_back({0, static_cast<uint32_t>(text.size())});
  for (const Regex& pattern : patterns_) {
    next.clear();
    for (const TextSpan word : words) {
      matches.clear();
      // The pattern sees the word alone: for a look-ahead the text ends with it.
      const Status status = pattern.find_all(word.of(text), scratch, matches);
      if (!status) {
        return in_context(fmt::format("pre-tokenizer {}, byte {}", entry_->names.front(), word.begin),
                          status.error());
      }
      uint32_t done = word.begin;
      const auto cut = [&](uint32_t end) {
        if (end > done) next.push_back({done, end});
        done = end;
      };
      for (const TextSpan match : matches) {
        cut(word.begin + match.begin);
        cut(word.begin + match.end);
      }
      cut(word.end);
    }
    std::swap(words, next);
  }
  return words;
}

}  // namespace soli
