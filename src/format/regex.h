#pragma once

// Regular expressions of PCRE2, compiled once and matched with bounded time and memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace soli {

/// A part of a text, in bytes.
struct TextSpan {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  std::string_view of(std::string_view text) const { return text.substr(begin, end - begin); }
};

/// What matching writes to, so that the patterns themselves can be shared by threads. It bounds the work of
/// all that is matched with it.
class RegexScratch {
 public:
  /// For patterns that are matched against `text_bytes` bytes in all.
  explicit RegexScratch(size_t text_bytes);
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;
  ~RegexScratch();

 private:
  friend class Regex;
  struct Parts;
  Parts& parts();

  size_t text_bytes_;
  std::unique_ptr<Parts> parts_;  // made with the first match
};

/// Immutable; any thread may use it.
class Regex {
 public:
  /// A pattern over UTF-8 as PCRE2 writes them, in which "\n" alone ends a line, "^" and "$" are the ends of
  /// lines. Fails with kMalformed, naming the byte at fault. Backtracking is bounded in every pattern; for
  /// one from outside, callouts "(?C)" must stand before and after whatever can repeat: work is counted
  /// there (format/hf/oniguruma.h writes them).
  static Result<Regex> compile(std::string_view pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// Appends all matches in a text from the left, which do not overlap; an empty one only where it does not
  /// touch the match before. `text` is valid UTF-8 and shorter than 4 GiB; look-around sees nothing outside
  /// of it. Fails with kLimit, naming the byte, where the work that the scratch allows is used up.
  Status find_all(std::string_view text, RegexScratch& scratch, std::vector<TextSpan>& matches) const;

 private:
  struct Program;
  explicit Regex(std::unique_ptr<Program> program);

  std::unique_ptr<Program> program_;
};

}  // namespace soli
