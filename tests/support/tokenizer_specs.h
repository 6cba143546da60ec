#pragma once

// Small vocabularies for tests.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "format/tokenizer_spec.h"
#include "format/tokenizer_vocabulary.h"

namespace soli::tokenizer_test {

/// A spec of byte-pair merges over all single bytes, then the given merges' results, then control tokens.
inline TokenizerSpec byte_pair_spec(const std::vector<std::string>& merges,
                                    const std::vector<std::string>& controls) {
  TokenizerSpec spec;
  spec.pretokenizer = "gpt-2";
  for (const std::string& byte : printable_bytes()) spec.tokens.push_back(byte);
  for (const std::string& merge : merges) {
    std::string result = merge;
    result.erase(result.find(' ', 1), 1);
    spec.tokens.push_back(result);
  }
  spec.merges = merges;
  spec.types.assign(spec.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  for (const std::string& control : controls) {
    spec.tokens.push_back(control);
    spec.types.push_back(static_cast<int32_t>(TokenType::kControl));
  }
  return spec;
}

/// A SentencePiece-like spec: <unk> <s> </s>, the 256 byte tokens, then these pieces, the earlier the better.
inline TokenizerSpec sentence_piece_spec(const std::vector<std::string>& pieces) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePiece;
  const auto add = [&](const std::string& text, float score, TokenType type) {
    spec.tokens.push_back(text);
    spec.scores.push_back(score);
    spec.types.push_back(static_cast<int32_t>(type));
  };
  add("<unk>", 0, TokenType::kUnknown);
  add("<s>", 0, TokenType::kControl);
  add("</s>", 0, TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0, TokenType::kByte);
  for (size_t i = 0; i < pieces.size(); ++i) add(pieces[i], -static_cast<float>(i), TokenType::kNormal);
  return spec;
}

}  // namespace soli::tokenizer_test
