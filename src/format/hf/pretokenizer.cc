#include "format/hf/pretokenizer.h"

#include <memory>
#include <utility>

#include "base/utf8.h"
#include "format/hf/normalizer.h"
#include "format/hf/pattern.h"
#include "format/hf/unicode.h"
#include "format/pretokenizer.h"
#include "format/tokenizer_vocabulary.h"

namespace soli::hf {
namespace {

// ASCII punctuation, and what Unicode calls so.
constexpr std::string_view kPunctuation = R"([\p{P}$+<=>^`|~])";
// As Rust's crate regex sees words; its \w has the joiners, other than Oniguruma's.
constexpr std::string_view kWordsAndOthers =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]++)"
    R"(|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\p{White_Space}]++)";
constexpr std::string_view kWhiteSpace = R"(\p{White_Space})";

using Step = std::function<Status(Words&)>;

Step cut(Pattern pattern, CutBehavior behavior, bool invert) {
  return [pattern = std::make_shared<const Pattern>(std::move(pattern)), behavior,
          invert](Words& words) -> Status {
    RegexScratch scratch(words.text.size());
    std::vector<TextSpan> matches, parts, out;
    for (const TextSpan part : words.parts) {
      matches.clear();
      parts.clear();
      SOLI_RETURN_IF_ERROR(pattern->find_all(part.of(words.text), scratch, matches));
      cut_at_matches(matches, part.size(), behavior, invert, parts);
      for (const TextSpan inner : parts) out.push_back({part.begin + inner.begin, part.begin + inner.end});
    }
    const bool kept = !out.empty() && !words.parts.empty() && out[0].begin == words.parts[0].begin;
    words.begins = words.begins && kept;
    words.parts = std::move(out);
    return {};
  };
}

/// Writes the parts anew: `write(part, is_first, out)` appends what a part becomes, which is not empty.
template <typename Write>
Status rewrite(Words& words, Write&& write) {
  std::string text;
  text.reserve(words.text.size());
  for (size_t i = 0; i < words.parts.size(); ++i) {
    TextSpan& part = words.parts[i];
    const size_t begin = text.size();
    write(part.of(words.text), i == 0, text);
    if (text.size() > words.max_bytes) return too_long(words.max_bytes);
    part = {static_cast<uint32_t>(begin), static_cast<uint32_t>(text.size())};
  }
  words.text = std::move(text);
  return {};
}

Status put_blank_before(Words& words) {
  return rewrite(words, [](std::string_view part, bool, std::string& out) {
    if (!part.starts_with(' ')) out += ' ';
    out += part;
  });
}

Status print_bytes(Words& words) {
  return rewrite(words, [](std::string_view part, bool, std::string& out) {
    for (const char byte : part) out += printable_bytes()[static_cast<uint8_t>(byte)];
  });
}

Result<CutBehavior> read_behavior(const JsonValue& value, std::string_view fallback) {
  constexpr std::pair<std::string_view, CutBehavior> kNames[] = {
      {"Removed", CutBehavior::kRemoved},
      {"Isolated", CutBehavior::kIsolated},
      {"MergedWithPrevious", CutBehavior::kMergedWithPrevious},
      {"MergedWithNext", CutBehavior::kMergedWithNext},
      {"Contiguous", CutBehavior::kContiguous}};
  SOLI_ASSIGN_OR_RETURN(const std::string name, value.text_or("behavior", fallback));
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  return fail(
      ErrorKind::kMalformed,
      "{}.behavior is '{}'; allowed are Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous",
      value.path(), printable(name));
}

}  // namespace

Result<PreTokenizer> PreTokenizer::read(const JsonValue& value) {
  PreTokenizer out;
  SOLI_RETURN_IF_ERROR(out.add(value));
  return out;
}

Status PreTokenizer::add_step(const JsonValue& value, Step step) {
  if (steps_.size() == kMaxSteps) {
    return fail(ErrorKind::kLimit, "{} is one step more than the {} allowed", value.path(), kMaxSteps);
  }
  steps_.push_back(std::move(step));
  return {};
}

Status PreTokenizer::add(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const std::string type, value.text_at("type"));
  if (type == "Sequence") return add_sequence(value);
  if (type == "ByteLevel") return add_byte_level(value);
  if (type == "Metaspace") return add_metaspace(value);
  if (type == "Split") return add_split(value);
  if (type == "Digits") {
    SOLI_ASSIGN_OR_RETURN(const bool individual, value.flag_or("individual_digits", false));
    const CutBehavior behavior = individual ? CutBehavior::kIsolated : CutBehavior::kContiguous;
    return add_step(value, cut(Pattern::of_regex(R"(\p{N})"), behavior, false));
  }
  if (type == "Punctuation") {
    SOLI_ASSIGN_OR_RETURN(const CutBehavior behavior, read_behavior(value, "Isolated"));
    return add_step(value, cut(Pattern::of_regex(kPunctuation), behavior, false));
  }
  if (type == "Whitespace") {
    return add_step(value, cut(Pattern::of_regex(kWordsAndOthers), CutBehavior::kRemoved, true));
  }
  if (type == "WhitespaceSplit") {
    return add_step(value, cut(Pattern::of_regex(kWhiteSpace), CutBehavior::kRemoved, false));
  }
  return fail(
      ErrorKind::kUnsupported,
      "{}.type is '{}'; supported are ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, Whitespace "
      "and WhitespaceSplit",
      value.path(), printable(type));
}

Status PreTokenizer::add_sequence(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const JsonValue list, value.at("pretokenizers"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.items(kMaxSteps));
  for (const JsonValue& item : items) SOLI_RETURN_IF_ERROR(add(item));
  return {};
}

Status PreTokenizer::add_byte_level(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const bool prefix, value.flag_or("add_prefix_space", true));
  SOLI_ASSIGN_OR_RETURN(const bool words, value.flag_or("use_regex", true));
  if (prefix) SOLI_RETURN_IF_ERROR(add_step(value, put_blank_before));
  if (words) {
    Pattern pattern = Pattern::of_regex(find_pretokenizer("gpt-2")->patterns.front());
    SOLI_RETURN_IF_ERROR(add_step(value, cut(std::move(pattern), CutBehavior::kIsolated, false)));
  }
  return add_step(value, print_bytes);
}

Status PreTokenizer::add_split(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const JsonValue at, value.at("pattern"));
  SOLI_ASSIGN_OR_RETURN(Pattern pattern, Pattern::read(at));
  SOLI_ASSIGN_OR_RETURN(const CutBehavior behavior, read_behavior(value, ""));
  SOLI_ASSIGN_OR_RETURN(const bool invert, value.flag_or("invert", false));
  return add_step(value, cut(std::move(pattern), behavior, invert));
}

Status PreTokenizer::add_metaspace(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const Metaspace metaspace, Metaspace::read(value));
  SOLI_RETURN_IF_ERROR(add_step(value, [metaspace](Words& words) {
    return rewrite(words, [&](std::string_view part, bool first, std::string& out) {
      const bool begins = words.begins && first;
      const bool prepends = metaspace.prepend == Metaspace::Prepend::kAlways ||
                            (metaspace.prepend == Metaspace::Prepend::kFirst && begins);
      if (prepends && !part.starts_with(' ') && !part.starts_with(metaspace.replacement)) {
        out += metaspace.replacement;
      }
      for (const char byte : part) {
        if (byte == ' ') {
          out += metaspace.replacement;
        } else {
          out += byte;
        }
      }
    });
  }));
  if (!metaspace.split) return {};
  return add_step(value, cut(Pattern::of_text(metaspace.replacement), CutBehavior::kMergedWithNext, false));
}

Result<Metaspace> Metaspace::read(const JsonValue& value) {
  Metaspace out;
  SOLI_ASSIGN_OR_RETURN(out.replacement, value.text_or("replacement", "\u2581"));
  const Utf8Unit unit = utf8_front(out.replacement);
  if (unit.bytes == 0 || unit.bytes != out.replacement.size()) {
    return fail(ErrorKind::kMalformed, "{}.replacement is '{}'; one character is allowed", value.path(),
                printable(out.replacement));
  }
  // Older files say "add_prefix_space" instead of "prepend_scheme".
  SOLI_ASSIGN_OR_RETURN(const bool prefix, value.flag_or("add_prefix_space", true));
  SOLI_ASSIGN_OR_RETURN(const std::string scheme,
                        value.text_or("prepend_scheme", prefix ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return fail(ErrorKind::kMalformed, "{}.prepend_scheme is '{}'; allowed are always, first and never",
                value.path(), printable(scheme));
  }
  if (!prefix && scheme != "never") {
    return fail(ErrorKind::kMalformed, "{}.prepend_scheme is '{}', but add_prefix_space is false",
                value.path(), scheme);
  }
  out.prepend = scheme == "always" ? Prepend::kAlways : scheme == "first" ? Prepend::kFirst : Prepend::kNever;
  SOLI_ASSIGN_OR_RETURN(out.split, value.flag_or("split", true));
  return out;
}

Result<Words> PreTokenizer::apply(std::string text, bool begins) const {
  Words words{std::move(text), {}, begins, 0};
  words.max_bytes = max_grown_bytes(words.text.size());
  if (words.text.empty()) return words;
  words.parts.push_back({0, static_cast<uint32_t>(words.text.size())});
  for (const Step& step : steps_) SOLI_RETURN_IF_ERROR(step(words));
  return words;
}

}  // namespace soli::hf
