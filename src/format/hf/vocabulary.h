#pragma once

// The tokens of a tokenizer.json: those of its model and the added ones, by id.

#include <optional>
#include <string>
#include <vector>

#include "format/hf/added_tokens.h"
#include "format/hf/json.h"
#include "format/tokenizer_spec.h"
#include "format/tokenizer_vocabulary.h"

namespace soli::hf {

/// Fails with kUnsupported for another model than BPE, or with kMalformed where it has no vocabulary or
/// merges.
Status check_model(const JsonFile& file, const JsonValue& model);

/// Tokens and types by id; ids that nobody has are unused. Fails with kMalformed or kLimit where an id is too
/// high or stands for two texts, naming both.
Result<TokenizerSpec> collect_tokens(const JsonFile& file, const std::vector<AddedToken>& added);

/// Fails with kMalformed where a text has two ids, naming it.
Status check_unique(const JsonFile& file, const std::vector<AddedToken>& added, const Vocabulary& vocabulary);

/// The id of BOS or EOS by its text, or else the only token that the post-processor puts there. Fails with
/// kMalformed, naming a text that is no token. `key` is that of tokenizer_config.json.
Result<std::optional<int64_t>> find_special(std::string_view key, const std::optional<std::string>& text,
                                            const std::vector<int32_t>& around, const TokenizerSpec& spec);

}  // namespace soli::hf
