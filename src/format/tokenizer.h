#pragma once

// Text to token ids and back. The ids of a GGUF file are those of llama.cpp, and of the model's own tokenizer
// where these two agree (tests/golden/tokenizers); those of a tokenizer.json are those of the library of
// Hugging Face. Encoding takes O(n log n) time for n bytes of any text, and a bounded
// depth of the stack. Streaming of generated tokens: format/detokenizer.h.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/tokenizer_spec.h"

namespace soli {

class GgufFile;

/// Longest text that encode() takes, in bytes.
inline constexpr size_t kMaxEncodeBytes = size_t{1} << 30;

struct EncodeOptions {
  bool add_special = true;     // BOS before and EOS after the text, where the model wants them
  bool parse_special = false;  // texts like "<|im_start|>" become their control token; not for user text
};

struct DecodeOptions {
  bool render_special = false;  // show the text of control tokens
  // True where the ids begin a text: the blank that SentencePiece puts before a text is taken off again.
  // False where they continue one, such as the answer to a prompt.
  bool begins_text = true;
};

/// Immutable after creation; any thread may use it.
class Tokenizer {
 public:
  /// Fails with kMalformed, kUnsupported or kLimit, naming the token, merge or id at fault.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerSpec spec);
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const GgufFile& file);
  /// Of a tokenizer.json, or of a folder with one, as in format/hf/tokenizer.h. What lies beside it counts
  /// too: tokenizer_config.json and chat_template.jinja. Fails also with kNotFound or kIo.
  static Result<std::unique_ptr<Tokenizer>> from_hugging_face(const std::string& path);

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// The ids of a text. Bytes that are not UTF-8 count as U+FFFD (one for each ill-formed part, as in section
  /// 3.9 of the Unicode standard). Fails with kLimit for a text over kMaxEncodeBytes, and with kUnsupported
  /// where the vocabulary has no token for some byte of the text.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const = 0;

  /// The bytes of one token, which may be part of a character. Control tokens give "" unless render_special;
  /// ids outside the vocabulary always give "".
  virtual std::string_view piece(int32_t id, bool render_special) const = 0;
  /// The pieces end to end, as the model meant them: the bytes need not be UTF-8.
  virtual std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const = 0;

  virtual int32_t vocab_size() const = 0;
  /// The text of a token as the file has it, or "" outside the vocabulary.
  virtual std::string_view token_text(int32_t id) const = 0;
  /// The id of a token by the text that the file has for it (such as "<|im_start|>").
  virtual std::optional<int32_t> find_token(std::string_view text) const = 0;
  /// Control and unknown tokens: those that decode() hides.
  virtual bool is_control(int32_t id) const = 0;

  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  virtual std::optional<int32_t> eot() const = 0;
  virtual std::optional<int32_t> unknown() const = 0;
  /// Whether add_special puts BOS before, or EOS after, a text.
  virtual bool adds_bos() const = 0;
  virtual bool adds_eos() const = 0;
  /// Tokens after which a generation ends: EOS, and tokens known by their text such as "<|im_end|>".
  virtual bool is_end_of_generation(int32_t id) const = 0;
  /// Ascending.
  virtual const std::vector<int32_t>& end_of_generation_ids() const = 0;

  /// The chat templates of the file, in its order; those that have no name are called "default".
  virtual const std::vector<ChatTemplateText>& chat_templates() const = 0;

  /// Whether decode() takes a leading blank off a text.
  virtual bool adds_space_prefix() const = 0;
  /// One line for people: "BPE, pre-tokenizer qwen2, 151,936 tokens".
  virtual std::string description() const = 0;

 protected:
  Tokenizer() = default;
};

}  // namespace soli
