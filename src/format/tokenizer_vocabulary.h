#pragma once

// The list of tokens of a model, with the properties that llama.cpp derives from their types and texts.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "format/tokenizer_spec.h"

namespace soli {

/// The printable character that stands for each byte in a vocabulary of byte-pair merges (GPT-2's
/// bytes_to_unicode), as UTF-8.
const std::array<std::string, 256>& printable_bytes();

/// The byte that one such character stands for, or nothing.
std::optional<uint8_t> byte_of_printable(std::string_view character);
/// The bytes that such a text stands for. Characters that stand for no byte stay as they are.
std::string bytes_of_printable(std::string_view text);

/// What stands for a blank in a SentencePiece vocabulary: U+2581.
inline constexpr std::string_view kBlankMark = "\u2581";

/// "<0x0A>" → 10; nothing for any other text.
std::optional<uint8_t> byte_of_token_text(std::string_view text);

class Vocabulary {
 public:
  /// Takes tokens, scores, types, special ids and chat templates out of the spec. Fails with kMalformed or
  /// kLimit naming the token or id at fault. Where two tokens have one text, the lower id is found.
  static Result<Vocabulary> build(TokenizerSpec& spec);
  /// What the text of a normal token shows.
  using PieceMaker = FunctionRef<Result<std::string>(std::string_view)>;
  /// The same with another way than that of the spec's kind.
  static Result<Vocabulary> build(TokenizerSpec& spec, PieceMaker piece_of);

  int32_t size() const { return static_cast<int32_t>(texts_.size()); }
  bool contains(int32_t id) const { return id >= 0 && id < size(); }
  const std::string& text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
  float score(int32_t id) const { return scores_.empty() ? 0.0f : scores_[static_cast<size_t>(id)]; }
  std::optional<int32_t> find(std::string_view text) const;
  size_t max_token_bytes() const { return max_token_bytes_; }

  /// What the token shows in a text, whether hidden or not.
  std::string_view piece(int32_t id) const;
  /// Hidden unless special tokens are rendered: control and unknown tokens.
  bool hidden(int32_t id) const;
  /// Looked for in every text, and in texts whose special tokens are parsed.
  bool matched_always(int32_t id) const { return file_type(id) == TokenType::kUserDefined; }
  bool matched_as_special(int32_t id) const;

  std::optional<int32_t> bos, eos, eot, unknown;
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  std::vector<int32_t> end_of_generation;  // ascending
  std::vector<ChatTemplateText> chat_templates;

 private:
  Status take_tokens(TokenizerSpec& spec);
  Status take_special_ids(const TokenizerSpec& spec);
  void find_control_tokens_by_text();
  void find_end_of_generation(std::optional<int32_t> eom);
  Status decide_additions(const TokenizerSpec& spec);
  Status build_pieces(PieceMaker piece_of);
  Result<std::string> make_piece(int32_t id, PieceMaker piece_of) const;
  TokenType file_type(int32_t id) const;

  std::vector<std::string> texts_;
  std::vector<float> scores_;
  std::vector<TokenType> file_types_;  // as the file says; empty: all normal
  std::vector<TokenType> types_;       // with what is known by text
  std::unordered_map<std::string_view, int32_t>
      ids_;  // views of texts_, whose storage stays when it is moved
  std::string pieces_;
  std::vector<uint32_t> piece_ends_;
  size_t max_token_bytes_ = 0;
};

}  // namespace soli
