#pragma once

// The member "model" of tokenizer.json: byte-pair encoding of the words that the pre-tokenizer cut.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/hf/json.h"
#include "format/tokenizer_merge.h"
#include "format/tokenizer_vocabulary.h"

namespace soli::hf {

/// Immutable; any thread may use it. The vocabulary must outlive it.
class BytePairModel {
 public:
  /// `file` is the whole tokenizer.json, whose members "vocab" and "merges" it uses, `model` the rest of that
  /// object. Fails with kMalformed or kUnsupported, naming the place.
  static Result<BytePairModel> read(const JsonFile& file, const JsonValue& model,
                                    const Vocabulary& vocabulary);

  /// Appends the ids of one word of well-formed UTF-8. `merger` is made by merger(). Fails with kUnsupported,
  /// naming the character, where the vocabulary has neither it, nor its bytes, nor a token for the unknown;
  /// the library of Hugging Face drops such characters.
  Status encode(std::string_view word, WordMerger& merger, std::vector<int32_t>& ids) const;
  WordMerger merger() const { return WordMerger(merges_); }

 private:
  explicit BytePairModel(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  Status read_options(const JsonValue& model);
  void note_tokens(const JsonFile& file);
  Status add_merges(const JsonFile& file);
  /// The token of a text among those of the model; added tokens are not.
  std::optional<int32_t> find(std::string_view text) const;
  std::optional<int32_t> find_character(std::string_view character) const;
  bool add_bytes(std::string_view character, WordMerger& merger) const;

  const Vocabulary* vocabulary_;
  std::vector<bool> of_model_;  // by id
  MergeTable merges_;
  std::vector<int32_t> low_characters_;  // tokens of the code points below 0x400, or -1
  std::vector<int32_t> bytes_;           // tokens "<0x00>" to "<0xFF>", or empty where there is no fallback
  std::optional<int32_t> unknown_;
  std::string prefix_, suffix_;  // of characters within a word, and of the last one
  bool fuse_unknown_ = false;
  bool whole_words_first_ = false;
};

}  // namespace soli::hf
