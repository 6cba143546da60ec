#include "format/hf/oniguruma.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "format/hf/oniguruma_members.h"

namespace soli::hf {
namespace {

// Outside of a class Oniguruma takes these for parts of words too.
constexpr std::string_view kWordBelow256 = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

class Translator : private MemberReader {
 public:
  using MemberReader::MemberReader;

  Result<std::string> run() {
    while (at_ < pattern_.size()) SOLI_RETURN_IF_ERROR(step());
    if (!open_.empty()) return malformed("a '(' is not closed");
    end_atom();
    return std::move(out_);
  }

 private:
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
      for (; at < pattern_.size() && is_ascii_digit(pattern_[at]); ++at) {
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
    const bool suffix = next_is("?") ? !(braces && least == most) : next_is("+") && !braces;
    if (suffix) out_ += pattern_[at_++];
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

  Status bracket() {
    SOLI_ASSIGN_OR_RETURN(const std::string members, class_members());
    add_atom(members);
    return {};
  }

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
