#pragma once

// Text of generated tokens, piece by piece, such that every piece can be sent as it is.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/tokenizer.h"

namespace soli {

/// Turns token ids into chunks of valid UTF-8. A character that is split over tokens is held back until it is
/// complete; bytes that cannot become one are replaced by U+FFFD. All chunks and flush() end to end equal
/// replace_invalid_utf8(tokenizer.decode(ids)). The tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, DecodeOptions options = {})
      : tokenizer_(&tokenizer), options_(options), at_start_(options.begins_text) {}

  /// The text that this token completes; may be empty.
  std::string push(int32_t id);
  /// What is held back at the end, replaced by U+FFFD since it is incomplete.
  std::string flush();
  /// Whether the last token left a character incomplete.
  bool pending() const { return !held_.empty(); }

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  bool at_start_;
  std::string held_;  // at most 3 bytes: the beginning of a character
};

/// Cuts a stream of chunks at the first of some stop strings, which may be spread over chunks. Text that may
/// yet become a stop string is held back, and no other text is.
class StopMatcher {
 public:
  StopMatcher() = default;
  /// Empty stop strings are left out.
  explicit StopMatcher(std::vector<std::string> stops);

  /// The text that may be sent now. After a stop string (stopped()) there is none.
  std::string push(std::string_view chunk);
  /// The text held back, when the stream ends without a stop string.
  std::string flush();
  bool stopped() const { return matched_ >= 0; }
  /// Index of the stop string found, among those given to the constructor without the empty ones, or -1. Of
  /// several that end at the same byte, the longest.
  int matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::vector<std::vector<uint32_t>> failure_;  // per stop: the prefix function of Knuth, Morris and Pratt
  std::vector<uint32_t> state_;                 // per stop: bytes of it that the text ends with
  std::string held_;
  int matched_ = -1;
};

}  // namespace soli
