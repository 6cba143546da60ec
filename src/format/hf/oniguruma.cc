#include "format/hf/oniguruma.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace soli::hf {
namespace {

// Members of a class.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of a class Oniguruma takes these for parts of words too.
constexpr std::string_view kWordBelow256 = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

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

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A character that stands for itself, wherever it is written.
std::string literal(uint32_t code_point) {
  const bool plain = code_point < 0x80 && (is_digit(static_cast<char>(code_point)) ||
                                           is_letter(static_cast<char>(code_point)) || code_point == ' ');
  return plain ? std::string(1, static_cast<char>(code_point)) : fmt::format("\\x{{{:X}}}", code_point);
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) SOLI_RETURN_IF_ERROR(step());
    if (!open_.empty()) return malformed("a '(' is not closed");
    end_atom();
    return std::move(out_);
  }

 private:
  /// A character of a class, or one of its sets (no code point).
  struct Member {
    std::string text;
    std::optional<uint32_t> code_point;
  };

  tl::unexpected<Error> unsupported(std::string_view what) const {
    return fail(ErrorKind::kUnsupported, "{} at byte {} of the pattern '{}' is not supported", what, at_,
                printable(pattern_));
  }
  tl::unexpected<Error> malformed(std::string_view what) const {
    return fail(ErrorKind::kMalformed, "{} at byte {} of the pattern '{}'", what, at_, printable(pattern_));
  }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool skip(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  uint32_t take_character() {
    const Utf8Unit unit = utf8_front(pattern_.substr(at_));
    at_ += unit.bytes;
    return unit.code_point;
  }

  // Atoms and their quantifiers. A callout is due after what could be chosen in several ways, yet not before
  // a quantifier has had its chance.

  void callout() {
    if (!out_.ends_with("(?C)")) out_ += "(?C)";
  }
  void end_atom() {
    if (callout_due_) callout();
    callout_due_ = false;
    atom_.reset();
  }
  void add_atom(std::string_view text) {
    end_atom();
    atom_ = out_.size();
    out_ += text;
  }

  Status step() {
    switch (pattern_[at_]) {
      case '\\':
        return escape();
      case '[':
        return bracket();
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        end_atom();
        out_ += pattern_[at_++];
        return {};
      case '^':
      case '$':
      case '.':
        add_atom(pattern_.substr(at_++, 1));
        return {};
      case '*':
      case '+':
      case '?':
        return quantifier({pattern_[at_] == '+' ? 1u : 0u, pattern_[at_] == '?' ? 1u : UINT32_MAX}, at_ + 1);
      case '{':
        if (const auto range = read_range()) return quantifier(range->first, range->second);
        break;
    }
    add_atom(literal(take_character()));
    return {};
  }

  using Range = std::pair<uint32_t, uint32_t>;  // least and most; UINT32_MAX: without end

  /// A "{2}", "{2,}", "{,3}" or "{2,3}" at the front with its end; else it stands for itself.
  std::optional<std::pair<Range, size_t>> read_range() const {
    size_t at = at_ + 1;
    const auto number = [&]() -> std::optional<uint32_t> {
      uint32_t value = 0;
      const size_t begin = at;
      for (; at < pattern_.size() && is_digit(pattern_[at]); ++at) {
        value = std::min(value * 10 + static_cast<uint32_t>(pattern_[at] - '0'), kMaxRepeats + 1);
      }
      return at > begin ? std::optional(value) : std::nullopt;
    };
    const auto least = number();
    const bool comma = at < pattern_.size() && pattern_[at] == ',';
    at += comma;
    const auto most = comma ? number() : least;
    if ((!least && !most) || at >= pattern_.size() || pattern_[at] != '}') return std::nullopt;
    return std::pair(Range{least.value_or(0), most.value_or(UINT32_MAX)}, at + 1);
  }

  Status quantifier(Range range, size_t end) {
    if (!atom_) return malformed("a quantifier without anything to repeat");
    const auto [least, most] = range;
    const bool braces = pattern_[at_] == '{';
    if (std::max(least, most == UINT32_MAX ? 0 : most) > kMaxRepeats) {
      return fail(ErrorKind::kLimit, "a repeat at byte {} of the pattern '{}' is over the {} allowed", at_,
                  printable(pattern_), kMaxRepeats);
    }
    if (most < least) return malformed("a repeat from more to less");
    if (quantified_ == out_.size()) wrap();
    const bool endless = most == UINT32_MAX;
    if (endless && !std::string_view(out_).substr(0, *atom_).ends_with("(?C)")) {
      out_.insert(*atom_, "(?C)");
      *atom_ += 4;
    }
    out_ += !braces ? std::string(1, pattern_[at_])
                    : fmt::format("{{{},{}}}", least, endless ? "" : std::to_string(most));
    at_ = end;
    // After braces a "+" is another repeat, and so is a "?" after a fixed count.
    if (next_is("?") && !(braces && least == most)) {
      out_ += pattern_[at_++];
    } else if (next_is("+") && !braces) {
      out_ += pattern_[at_++];
    }
    quantified_ = out_.size();
    callout_due_ = true;
    return {};
  }
  /// Makes one atom of the last one and its quantifier.
  void wrap() {
    out_.insert(*atom_, "(?:");
    out_ += ')';
  }

  Status open_group() {
    end_atom();
    const size_t begin = out_.size();
    std::string_view lead = "(?:";
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"}) {
      if (next_is(kind)) lead = kind;
    }
    if (next_is("(?i)") && out_.empty()) {
      out_ += "(?i)";
      at_ += 4;
      return {};
    }
    if (!skip(lead)) {
      if (next_is("(?")) return unsupported("this group");
      if (next_is("(*")) return unsupported("a verb");
      ++at_;
    }
    out_ += lead;
    open_.push_back(begin);
    return {};
  }

  Status close_group() {
    if (open_.empty()) return malformed("a ')' without '('");
    end_atom();
    out_ += pattern_[at_++];
    atom_ = open_.back();
    open_.pop_back();
    callout_due_ = true;
    return {};
  }

  // Escapes.

  Status escape() {
    const size_t begin = at_;
    if (at_ + 1 == pattern_.size()) return malformed("a '\\' at the end");
    const char c = pattern_[at_ + 1];
    std::string word = fmt::format("[{}{}]", kWord, kWordBelow256);
    switch (c) {
      case 'b':
        word = fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word);
        break;
      case 'B':
        word = fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word);
        break;
      case 'w':
        break;
      case 'W':
        word = fmt::format("[^{}{}]", kWord, kWordBelow256);
        break;
      case 'H':
        word = fmt::format("[^{}]", kHexDigits);
        break;
      case 'A':
      case 'z':
      case 'Z':
        word = pattern_.substr(at_, 2);
        break;
      default: {
        SOLI_ASSIGN_OR_RETURN(Member member, escaped_member());
        if (c == 'h') member.text = fmt::format("[{}]", kHexDigits);
        add_atom(member.text);
        return {};
      }
    }
    at_ = begin + 2;
    add_atom(word);
    return {};
  }

  /// An escape that may stand in a class.
  Result<Member> escaped_member() {
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
    if (is_letter(c) || is_digit(c)) return unsupported(fmt::format("'\\{}'", c));
    ++at_;
    const uint32_t value = take_character();
    return Member{literal(value), value};
  }

  /// "\x41", "\x{41}", "\u0041".
  Result<Member> code_point() {
    const size_t begin = at_;
    const bool fixed = pattern_[at_ + 1] == 'u';
    at_ += 2;
    const bool braces = !fixed && skip("{");
    const size_t most = fixed ? 4 : braces ? 8 : 2, first = at_;
    uint32_t value = 0;
    for (; at_ < pattern_.size() && at_ - first < most; ++at_) {
      const char c = pattern_[at_];
      if (!is_digit(c) && !(is_letter(c) && (c | 32) <= 'f')) break;
      value = value * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
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
  Result<Member> property() {
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
      if (!is_letter(c) && !is_digit(c)) return unsupported("this property");
      plain += is_letter(c) ? static_cast<char>(c | 32) : c;
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

  // Classes.

  Status bracket() {
    SOLI_ASSIGN_OR_RETURN(const std::string members, class_members());
    add_atom(members);
    return {};
  }

  /// A class from its "[" to its "]". Classes within it are taken apart: their members are its own.
  Result<std::string> class_members() {
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
  Status add_members(std::string& text) {
    SOLI_ASSIGN_OR_RETURN(Member low, next_member());
    text += low.text;
    const bool range =
        low.code_point && next_is("-") && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
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

  Result<Member> next_member() {
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

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  std::vector<size_t> open_;      // where in out_ the open groups begin
  std::optional<size_t> atom_;    // where in out_ the last atom begins
  size_t quantified_ = SIZE_MAX;  // length of out_ after the last quantifier
  bool callout_due_ = false;
};

}  // namespace

Result<std::string> pcre2_of_oniguruma(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return fail(ErrorKind::kLimit, "a pattern has {} bytes; {} are allowed", pattern.size(),
                kMaxPatternBytes);
  }
  return Translator(pattern).run();
}

}  // namespace soli::hf
