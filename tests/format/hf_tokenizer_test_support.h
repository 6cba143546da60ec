#pragma once

// Small files of the kind tokenizer.json.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "format/hf/tokenizer.h"
#include "format/tokenizer_vocabulary.h"

namespace soli::hf_test {

using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

/// A model of single characters and of what merges ("a b", by rank) make of them. Ids count from 0 in this
/// order: the characters, then the results.
inline Json model_of(const std::vector<std::string>& characters, const std::vector<std::string>& merges) {
  Json model = {{"type", "BPE"}, {"vocab", Json::object()}, {"merges", merges}};
  const auto add = [&](const std::string& text) {
    if (!model["vocab"].contains(text)) model["vocab"][text] = model["vocab"].size();
  };
  for (const std::string& character : characters) add(character);
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    add(merge);
  }
  return model;
}

/// A file with that model and nothing else.
inline Json file_of(const std::vector<std::string>& characters, const std::vector<std::string>& merges) {
  return {{"version", "1.0"}, {"model", model_of(characters, merges)}};
}

/// All bytes as printable characters, and merges; the pre-tokenizer and the decoder ByteLevel.
inline Json byte_level_file(const std::vector<std::string>& merges) {
  const auto& bytes = printable_bytes();
  Json file = file_of({bytes.begin(), bytes.end()}, merges);
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  file["decoder"] = {{"type", "ByteLevel"}};
  return file;
}

inline Json added_token(int64_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

inline std::unique_ptr<Tokenizer> make(const Json& file, const hf::TokenizerConfig& config = {}) {
  auto tokenizer = hf::make_tokenizer(file.dump(), config);
  if (!tokenizer) {
    ADD_FAILURE() << tokenizer.error().message;
    return nullptr;
  }
  return *std::move(tokenizer);
}

/// The message of the error that this file gives.
inline std::string error_of_text(const std::string& file, const hf::TokenizerConfig& config = {}) {
  const auto tokenizer = hf::make_tokenizer(file, config);
  return tokenizer ? "no error" : tokenizer.error().message;
}
inline std::string tokenizer_error_of(const Json& file) { return error_of_text(file.dump()); }

/// The texts of the tokens that a text becomes, or the error.
inline std::vector<std::string> tokens_of(const Tokenizer& tokenizer, const std::string& text,
                                          EncodeOptions options = {}) {
  const auto ids = tokenizer.encode(text, options);
  if (!ids) return {ids.error().message};
  std::vector<std::string> out;
  for (const int32_t id : *ids) out.emplace_back(tokenizer.token_text(id));
  return out;
}

}  // namespace soli::hf_test
