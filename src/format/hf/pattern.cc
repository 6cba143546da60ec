#include "format/hf/pattern.h"

#include <utility>

#include "base/check.h"
#include "format/hf/oniguruma.h"
#include "format/hf/unicode.h"
#include "format/tokenizer_spec.h"

namespace soli::hf {

Result<Pattern> Pattern::read(const JsonValue& value) {
  if (const auto text = value.find("String")) {
    SOLI_ASSIGN_OR_RETURN(std::string plain, text->text());
    if (plain.empty()) return text->wrong("a text that is not empty");
    if (plain.size() > kMaxTokenBytes) {
      return fail(ErrorKind::kLimit, "{} has {} bytes; {} are allowed", text->path(), plain.size(),
                  kMaxTokenBytes);
    }
    return of_text(std::move(plain));
  }
  const auto regex = value.find("Regex");
  if (!regex) return value.wrong("an object with 'String' or 'Regex'");
  SOLI_ASSIGN_OR_RETURN(const std::string pattern, regex->text());
  const Result<std::string> translated = pcre2_of_oniguruma(pattern);
  if (!translated) return in_context(regex->path(), translated.error());
  Result<Regex> compiled = Regex::compile(*translated);
  if (!compiled) return in_context(regex->path(), std::move(compiled).error());
  Pattern out;
  out.regex_ = *std::move(compiled);
  return out;
}

Pattern Pattern::of_text(std::string text) {
  SOLI_CHECK(!text.empty());
  Pattern out;
  out.text_ = std::move(text);
  return out;
}

Pattern Pattern::of_regex(std::string_view pcre2) {
  Result<Regex> compiled = Regex::compile(pcre2);
  SOLI_CHECK(compiled.has_value(), "{}", compiled.error().message);
  Pattern out;
  out.regex_ = *std::move(compiled);
  return out;
}

Status Pattern::find_all(std::string_view text, RegexScratch& scratch, std::vector<TextSpan>& matches) const {
  if (regex_) return regex_->find_all(text, scratch, matches);
  for (size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size())) {
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + text_.size())});
  }
  return {};
}

Result<std::string> replaced(std::string_view text, const Pattern& pattern, std::string_view content,
                             size_t max_bytes) {
  RegexScratch scratch(text.size());
  std::vector<TextSpan> matches;
  SOLI_RETURN_IF_ERROR(pattern.find_all(text, scratch, matches));
  std::string out;
  uint32_t done = 0;
  for (const TextSpan match : matches) {
    out += text.substr(done, match.begin - done);
    out += content;
    done = match.end;
    if (out.size() > max_bytes) return too_long(max_bytes);
  }
  out += text.substr(done);
  return out;
}

}  // namespace soli::hf
