#include "format/hf/oniguruma_members.h"

#include <utility>

#include "base/utf8.h"

namespace soli::hf {
namespace {

// Properties that are binary in PCRE2, by the names that both know.
constexpr std::pair<std::string_view, std::string_view> kProperties[] = {{"alpha", "Alphabetic"},
                                                                         {"alphabetic", "Alphabetic"},
                                                                         {"upper", "Uppercase"},
                                                                         {"uppercase", "Uppercase"},
                                                                         {"lower", "Lowercase"},
                                                                         {"lowercase", "Lowercase"},
                                                                         {"space", "White_Space"},
                                                                         {"whitespace", "White_Space"},
                                                                         {"digit", "Nd"},
                                                                         {"emoji", "Emoji"},
                                                                         {"ideographic", "Ideographic"},
                                                                         {"any", "Any"},
                                                                         {"letter", "L"},
                                                                         {"mark", "M"},
                                                                         {"number", "N"},
                                                                         {"punctuation", "P"},
                                                                         {"punct", "P"},
                                                                         {"symbol", "S"},
                                                                         {"separator", "Z"},
                                                                         {"other", "C"}};

// What "[:name:]" stands for, as members of a class.
constexpr std::pair<std::string_view, std::string_view> kBrackets[] = {{"alpha", R"(\p{Alphabetic})"},
                                                                       {"alnum", R"(\p{Alphabetic}\p{Nd})"},
                                                                       {"digit", R"(\p{Nd})"},
                                                                       {"lower", R"(\p{Lowercase})"},
                                                                       {"upper", R"(\p{Uppercase})"},
                                                                       {"space", R"(\p{White_Space})"},
                                                                       {"word", kWord},
                                                                       {"xdigit", kHexDigits},
                                                                       {"punct", R"(\p{P})"},
                                                                       {"blank", R"(\t\p{Zs})"},
                                                                       {"cntrl", R"(\p{Cc})"}};

template <size_t n>
std::optional<std::string_view> lookup(const std::pair<std::string_view, std::string_view> (&table)[n],
                                       std::string_view name) {
  for (const auto& [key, value] : table) {
    if (key == name) return value;
  }
  return std::nullopt;
}

bool is_category(std::string_view name) {
  constexpr std::string_view kCategories =
      " C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp "
      "Zs ";
  return kCategories.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

}  // namespace

std::string literal(uint32_t code_point) {
  const bool plain =
      code_point < 0x80 && (is_ascii_digit(static_cast<char>(code_point)) ||
                            is_ascii_letter(static_cast<char>(code_point)) || code_point == ' ');
  return plain ? std::string(1, static_cast<char>(code_point)) : fmt::format("\\x{{{:X}}}", code_point);
}

tl::unexpected<Error> MemberReader::unsupported(std::string_view what) const {
  return fail(ErrorKind::kUnsupported, "{} at byte {} of the pattern '{}' is not supported", what, at_,
              printable(pattern_));
}

tl::unexpected<Error> MemberReader::malformed(std::string_view what) const {
  return fail(ErrorKind::kMalformed, "{} at byte {} of the pattern '{}'", what, at_, printable(pattern_));
}

bool MemberReader::skip(std::string_view text) {
  if (!next_is(text)) return false;
  at_ += text.size();
  return true;
}

uint32_t MemberReader::take_character() {
  const Utf8Unit unit = utf8_front(pattern_.substr(at_));
  at_ += unit.bytes;
  return unit.code_point;
}

Result<MemberReader::Member> MemberReader::escaped_member() {
  if (at_ + 1 >= pattern_.size()) return malformed("a '\\' at the end");
  const char c = pattern_[at_ + 1];
  if (c == 'p' || c == 'P') return property();
  if (c == 'x' || c == 'u') return code_point();
  const auto set = [&](std::string_view text) {
    at_ += 2;
    return Member{std::string(text), std::nullopt};
  };
  const auto character = [&](uint32_t value) {
    at_ += 2;
    return Member{literal(value), value};
  };
  switch (c) {
    case 's':
      return set(R"(\p{White_Space})");
    case 'S':
      return set(R"(\P{White_Space})");
    case 'd':
      return set(R"(\p{Nd})");
    case 'D':
      return set(R"(\P{Nd})");
    case 'w':
      return set(kWord);
    case 'h':
      return set(kHexDigits);
    case 'n':
      return character('\n');
    case 'r':
      return character('\r');
    case 't':
      return character('\t');
    case 'f':
      return character('\f');
    case 'v':
      return character('\v');
    case 'a':
      return character('\a');
    case 'e':
      return character(0x1B);
  }
  if (is_ascii_letter(c) || is_ascii_digit(c)) return unsupported(fmt::format("'\\{}'", c));
  ++at_;
  const uint32_t value = take_character();
  return Member{literal(value), value};
}

/// "\x41", "\x{41}", "\u0041".
Result<MemberReader::Member> MemberReader::code_point() {
  const size_t begin = at_;
  const bool fixed = pattern_[at_ + 1] == 'u';
  at_ += 2;
  const bool braces = !fixed && skip("{");
  const size_t most = fixed ? 4 : braces ? 8 : 2, first = at_;
  uint32_t value = 0;
  for (; at_ < pattern_.size() && at_ - first < most; ++at_) {
    const char c = pattern_[at_];
    if (!is_ascii_digit(c) && !(is_ascii_letter(c) && (c | 32) <= 'f')) break;
    value = value * 16 + static_cast<uint32_t>(is_ascii_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
  }
  const bool complete = at_ > first && (!fixed || at_ - first == 4) && (!braces || skip("}"));
  // Below 256 and without braces a number is a byte of UTF-8, not a character.
  if (!complete || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) ||
      (!fixed && !braces && value >= 0x80)) {
    at_ = begin;
    return malformed("a code point that is none");
  }
  return Member{literal(value), value};
}

/// "\p{Lu}", "\P{Lu}", "\p{^Lu}".
Result<MemberReader::Member> MemberReader::property() {
  const size_t end = pattern_.find('}', at_);
  if (end == std::string_view::npos || pattern_.substr(at_ + 2, 1) != "{")
    return unsupported("this property");
  std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
  bool negated = pattern_[at_ + 1] == 'P';
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  std::string plain;
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ' ') continue;
    if (!is_ascii_letter(c) && !is_ascii_digit(c)) return unsupported("this property");
    plain += is_ascii_letter(c) ? static_cast<char>(c | 32) : c;
  }
  std::string known = fmt::format("sc:{}", name);  // else PCRE2 takes Script_Extensions
  if (const auto found = lookup(kProperties, plain)) known = *found;
  if (plain.size() <= 2 && !plain.empty()) {
    plain[0] = static_cast<char>(plain[0] & ~32);
    if (is_category(plain)) known = plain;
  }
  at_ = end + 1;
  return Member{fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', known), std::nullopt};
}

Result<std::string> MemberReader::class_members() {
  std::string text = "[";
  ++at_;
  if (skip("^")) text += '^';
  size_t depth = 1;
  bool first = true;
  while (depth > 0) {
    if (at_ >= pattern_.size()) return malformed("a '[' is not closed");
    if (next_is("&&")) return unsupported("a set operation");
    if (pattern_[at_] == ']' && !first) {
      ++at_;
      --depth;
      continue;
    }
    first = false;
    if (next_is("[") && !next_is("[:")) {
      if (next_is("[^")) return unsupported("a class that is negated in a class");
      if (next_is("[[") || next_is("[]")) return unsupported("this class");
      ++at_;
      ++depth;
      continue;
    }
    SOLI_RETURN_IF_ERROR(add_members(text));
  }
  return text + "]";
}

/// One character, set or range.
Status MemberReader::add_members(std::string& text) {
  SOLI_ASSIGN_OR_RETURN(Member low, next_member());
  text += low.text;
  const bool range = low.code_point && next_is("-") && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
  if (!range) return {};
  if (pattern_[at_ + 1] == '[') return unsupported("a range to a class");
  ++at_;
  SOLI_ASSIGN_OR_RETURN(Member high, next_member());
  if (!high.code_point) return unsupported("a range to a set");
  if (*high.code_point < *low.code_point) return malformed("a range from high to low");
  text += '-';
  text += high.text;
  return {};
}

Result<MemberReader::Member> MemberReader::next_member() {
  if (pattern_[at_] == '\\') return escaped_member();
  if (skip("[:")) {
    const size_t end = pattern_.find(":]", at_);
    const auto found =
        end == std::string_view::npos ? std::nullopt : lookup(kBrackets, pattern_.substr(at_, end - at_));
    if (!found) return unsupported("this bracket");
    at_ = end + 2;
    return Member{std::string(*found), std::nullopt};
  }
  const uint32_t value = take_character();
  return Member{literal(value), value};
}

}  // namespace soli::hf
