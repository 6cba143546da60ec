#pragma once

// The member "pattern" of normalizers and pre-tokenizers.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/hf/json.h"
#include "format/regex.h"

namespace soli::hf {

/// Finds {"String": "..."} or {"Regex": "..."}. Immutable; any thread may use it.
class Pattern {
 public:
  /// Fails with kMalformed, kUnsupported or kLimit, naming the place.
  static Result<Pattern> read(const JsonValue& value);
  static Pattern of_text(std::string text);
  /// For a pattern of ours, in the language of PCRE2 with one pass over the text.
  static Pattern of_regex(std::string_view pcre2);

  /// Appends all matches in a text, which do not overlap. Fails like Regex::find_all.
  Status find_all(std::string_view text, RegexScratch& scratch, std::vector<TextSpan>& matches) const;

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

/// The text with `content` in place of every match. Fails with kLimit where it would be longer than
/// `max_bytes`, or like Regex::find_all.
Result<std::string> replaced(std::string_view text, const Pattern& pattern, std::string_view content,
                             size_t max_bytes);

}  // namespace soli::hf
