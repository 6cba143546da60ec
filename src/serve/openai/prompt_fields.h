#pragma once

#include "serve/openai/generation_fields.h"

namespace soli::openai {

/// Reads a parameter that is a string, a list of strings, a list of token ids or a list of such lists, at
/// most `most` of them. Strings are encoded with BOS and EOS as the model wants them; texts of control tokens
/// in them stay text unless `parse_special`.
Prompts read_prompts(Fields& fields, const ServedModel& model, std::string_view name, int64_t most,
                     bool parse_special);

/// A list of token ids, each in the vocabulary; `path` is for errors.
std::vector<int32_t> read_token_ids(Fields& fields, const ServedModel& model, const std::string& path,
                                    const Json& list);

/// Fails where a prompt is empty, or is too long for the context; with `wants_answer`, where it fills it.
ApiStatus check_prompt(const ServedModel& model, const std::string& param, const std::vector<int32_t>& prompt,
                       bool wants_answer);

}  // namespace soli::openai
