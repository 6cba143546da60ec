#pragma once

// Characters, escapes and classes of Oniguruma's patterns, as members of PCRE2's classes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace soli::hf {

// Members of a class.
inline constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
inline constexpr std::string_view kHexDigits = "0-9A-Fa-f";

inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A character that stands for itself, wherever it is written.
std::string literal(uint32_t code_point);

/// Reads what can be a member of a class, from a place in a pattern on. Errors name that place.
class MemberReader {
 public:
  explicit MemberReader(std::string_view pattern) : pattern_(pattern) {}

 protected:
  /// A character, or a set (no code point).
  struct Member {
    std::string text;
    std::optional<uint32_t> code_point;
  };

  /// The escape here, where it may stand in a class.
  Result<Member> escaped_member();
  /// The class here, from its "[" to its "]". Classes within it are taken apart: their members are its own.
  Result<std::string> class_members();

  tl::unexpected<Error> unsupported(std::string_view what) const;
  tl::unexpected<Error> malformed(std::string_view what) const;
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool skip(std::string_view text);
  uint32_t take_character();

  std::string_view pattern_;
  size_t at_ = 0;

 private:
  Result<Member> code_point();
  Result<Member> property();
  Status add_members(std::string& text);
  Result<Member> next_member();
};

}  // namespace soli::hf
