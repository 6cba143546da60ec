#pragma once

// Finds special tokens in a text before anything else cuts it.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/longest_prefix.h"
#include "format/regex.h"
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
  struct Token {
    int32_t id;
    uint32_t bytes;
    bool always;       // found also where special tokens are not parsed
    bool strip_right;  // swallows the blanks after it
  };

  std::vector<Token> tokens_;
  LongestPrefix texts_;  // of the tokens, in their order
  bool any_always_ = false;
};

}  // namespace soli
