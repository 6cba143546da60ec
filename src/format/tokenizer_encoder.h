#pragma once

// The two ways from a text without special tokens to ids. Internal to format/tokenizer.cc.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/tokenizer_spec.h"
#include "format/tokenizer_vocabulary.h"

namespace soli {

/// Immutable; any thread may use it. The vocabulary must outlive it.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// Appends the ids of `text`, which is valid UTF-8. `begins` where it follows nothing or a special token.
  virtual Status encode(std::string_view text, bool begins, std::vector<int32_t>& ids) const = 0;
};

/// Fails with kMalformed or kLimit, naming the merge at fault; with kUnsupported for an unknown
/// pre-tokenizer.
Result<std::unique_ptr<TextEncoder>> make_byte_pair_encoder(const Vocabulary& vocabulary,
                                                            const TokenizerSpec& spec);
/// Fails with kLimit for tokens of hostile length or likeness.
Result<std::unique_ptr<TextEncoder>> make_sentence_piece_encoder(const Vocabulary& vocabulary);

/// The token for each byte, for text that has no other; or the unknown token; or -1.
struct ByteTokens {
  std::array<int32_t, 256> ids;

  /// Appends the id for one byte; fails with kUnsupported, naming a byte that the vocabulary cannot express.
  Status append(uint8_t byte, std::vector<int32_t>& out) const;
};

}  // namespace soli
