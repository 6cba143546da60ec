#pragma once

// What a model file says about its tokenizer, before anything is built from it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace soli {

class GgufFile;
class GgufMetadata;

// Limits on what a file may ask for, well above every published vocabulary.
inline constexpr size_t kMaxVocabularyTokens = size_t{1} << 20;
inline constexpr size_t kMaxVocabularyMerges = size_t{1} << 21;
inline constexpr size_t kMaxTokenBytes = 4096;
inline constexpr size_t kMaxSpecialTokenBytes = 256;  // of a token that is searched for in text

enum class TokenizerKind {
  kBytePairMerges,  // GGUF "gpt2": bytes as printable characters, merges in order of rank
  kSentencePiece,   // GGUF "llama": pieces with scores, U+2581 for a blank, <0xXX> for single bytes
};

/// Token types with the ids that files carry.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// A chat template as the file has it, not yet parsed.
struct ChatTemplateText {
  std::string name;  // "default" for the only one, or the one without a name
  std::string text;
};

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kBytePairMerges;
  std::string pretokenizer = "default";  // only merges have one; see pretokenizer_names()
  std::vector<std::string> tokens;       // by id
  std::vector<float> scores;             // by id, or empty: all 0
  std::vector<int32_t> types;            // by id, values of TokenType, or empty: all normal
  std::vector<std::string> merges;       // "left right" by rank

  // Special ids. An id outside the vocabulary is an error of Tokenizer::create that names it.
  std::optional<int64_t> bos, eos, eot, eom, unknown;

  // Absent: what the kind and the pre-tokenizer do by themselves.
  std::optional<bool> add_bos, add_eos, add_space_prefix;

  // Special tokens swallow the blanks that follow them in a text (Phi-3; no key of the file says so).
  bool special_tokens_strip_right = false;

  std::vector<ChatTemplateText> chat_templates;
};

/// Reads the keys tokenizer.ggml.*. Fails with kMalformed or kNotFound naming the key, or with kUnsupported
/// for another kind than "gpt2" and "llama".
Result<TokenizerSpec> read_tokenizer_spec(const GgufMetadata& metadata);
Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& file);

}  // namespace soli
