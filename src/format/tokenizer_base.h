#pragma once

// What all tokenizers with a Vocabulary have in common: all but encoding.

#include <algorithm>
#include <string>
#include <utility>

#include "format/tokenizer.h"
#include "format/tokenizer_vocabulary.h"

namespace soli {

class VocabularyTokenizer : public Tokenizer {
 public:
  /// `kind` is the first part of the description.
  VocabularyTokenizer(Vocabulary vocabulary, const std::string& kind);

  std::string_view piece(int32_t id, bool render_special) const override {
    if (!vocabulary_.contains(id) || (!render_special && vocabulary_.hidden(id))) return {};
    return vocabulary_.piece(id);
  }
  std::string decode(std::span<const int32_t> ids, DecodeOptions options) const override;

  int32_t vocab_size() const override { return vocabulary_.size(); }
  std::string_view token_text(int32_t id) const override {
    return vocabulary_.contains(id) ? std::string_view(vocabulary_.text(id)) : std::string_view();
  }
  std::optional<int32_t> find_token(std::string_view text) const override { return vocabulary_.find(text); }
  bool is_control(int32_t id) const override { return vocabulary_.contains(id) && vocabulary_.hidden(id); }
  std::optional<int32_t> bos() const override { return vocabulary_.bos; }
  std::optional<int32_t> eos() const override { return vocabulary_.eos; }
  std::optional<int32_t> eot() const override { return vocabulary_.eot; }
  std::optional<int32_t> unknown() const override { return vocabulary_.unknown; }
  bool adds_bos() const override { return vocabulary_.add_bos; }
  bool adds_eos() const override { return vocabulary_.add_eos; }
  bool is_end_of_generation(int32_t id) const override {
    const auto& ids = vocabulary_.end_of_generation;
    return std::binary_search(ids.begin(), ids.end(), id);
  }
  const std::vector<int32_t>& end_of_generation_ids() const override { return vocabulary_.end_of_generation; }
  const std::vector<ChatTemplateText>& chat_templates() const override { return vocabulary_.chat_templates; }
  bool adds_space_prefix() const override { return vocabulary_.add_space_prefix; }
  std::string description() const override { return description_; }

 protected:
  /// `text` as encode() takes it: where it is not UTF-8, what `repaired` holds then. Fails with kLimit.
  static Result<std::string_view> encodable(std::string_view text, std::string& repaired);

  Vocabulary vocabulary_;  // others refer to it, so it must not move

 private:
  std::string description_;
};

}  // namespace soli
