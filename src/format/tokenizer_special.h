#pragma once

// Finds special tokens in a text before anything else cuts it.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/pretokenizer.h"
#include "format/tokenizer_vocabulary.h"

namespace soli {

/// A part of a text that is one special token, or (id -1) is yet to be encoded.
struct TextFragment {
  TextSpan span;
  int32_t id = -1;
};

/// Immutable; any thread may use it. The vocabulary must outlive it.
class SpecialTokenFinder {
 public:
  /// Fails with kLimit, naming a special token that is longer than kMaxSpecialTokenBytes.
  static Result<SpecialTokenFinder> create(const Vocabulary& vocabulary, bool strip_right);

  /// Cuts a text at the special tokens in it: user-defined ones always, control tokens if `parse_special`. As
  /// in llama.cpp, the longest token of all is found first, at its first places from the left; then the next
  /// longest in what is left, and so on. Takes O(n log n) time for n bytes, times the number of special
  /// tokens that begin with one another.
  std::vector<TextFragment> split(std::string_view text, bool parse_special) const;

 private:
  /// The tokens that begin with one byte, as a range of `tokens_`.
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  struct Token {
    std::string_view text;
    int32_t id;
    bool always;       // found also where special tokens are not parsed
    bool strip_right;  // swallows the blanks after it
  };

  /// Index of the longest token at the beginning of `text`, or -1.
  int64_t longest_at_front(std::string_view text, bool parse_special) const;

  std::vector<Token> tokens_;  // sorted by text
  std::array<Range, 256> first_byte_;
  bool any_always_ = false;
};

}  // namespace soli
