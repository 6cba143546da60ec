#pragma once

// The tokenizer of a tokenizer.json, as the library "tokenizers" of Hugging Face understands the file: the
// same ids for the same text. Where that library would lose something in silence, this fails: characters for
// which there is no token, and added tokens whose ids are not those of the file.
//
// A text goes through these, each with its member in the file:
//   added_tokens    found first in the text as it is, then in what follows where they ask for it
//   normalizer      each part between them
//   pre_tokenizer   cuts what is left into words
//   model           a word becomes ids
//   post_processor  BOS and EOS around all of it
//   decoder         ids become text again
// Texts are neither cut nor filled up: "truncation" and "padding" are left alone.

#include <memory>
#include <string_view>

#include "format/hf/config.h"
#include "format/tokenizer.h"

namespace soli::hf {

inline constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;

/// From the content of the file and of those beside it. Fails with kMalformed, kUnsupported or kLimit, naming
/// the place.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(std::string_view json, const TokenizerConfig& config);

}  // namespace soli::hf
