#pragma once

// The member "added_tokens" of tokenizer.json: tokens that are found in a text before the model sees it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/hf/json.h"
#include "format/hf/normalizer.h"
#include "format/longest_prefix.h"
#include "format/tokenizer_special.h"

namespace soli::hf {

/// Published files have up to some 6,000.
inline constexpr size_t kMaxAddedTokens = size_t{1} << 16;

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      // found only where special tokens are parsed; hidden in a decoded text
  bool normalized = true;    // looked for in the normalized text
  bool single_word = false;  // not next to a part of a word
  bool strip_left = false;   // takes the white space before it along
  bool strip_right = false;
};

/// Fails with kMalformed or kLimit, naming the place. `max_id` is the highest id allowed.
Result<std::vector<AddedToken>> read_added_tokens(const JsonValue& list, int64_t max_id);

/// Immutable; any thread may use it.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  /// Fails where a token cannot be normalized.
  static Result<AddedTokenFinder> create(const std::vector<AddedToken>& tokens, const Normalizer& normalizer);

  /// Cuts a text that is yet to be normalized, or one that is, at the tokens of its kind: from the left, the
  /// longest at each place. A special token that is not to be parsed, and one that is no single word, still
  /// hides those that overlap with it. Takes O(n) time for n bytes, times the longest token's length.
  std::vector<TextFragment> split(std::string_view text, bool is_normalized, bool parse_special) const;

 private:
  struct Group {
    std::vector<AddedToken> tokens;
    LongestPrefix texts;  // of the tokens, in their order
  };

  Group raw_, normalized_;
};

}  // namespace soli::hf
