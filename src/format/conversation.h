#pragma once

// A conversation with a model, by its own chat template: which template, what it is given beside the
// messages, and the tokens of what it makes.

#include <cstdint>
#include <string_view>
#include <vector>

#include "format/chat_template.h"
#include "format/tokenizer.h"

namespace soli {

/// The texts of BOS and EOS, where the model has them.
void set_special_tokens(ChatInputs& inputs, const Tokenizer& tokenizer);

/// The template that a model carries: of several the default one, or with tools the one called "tool_use", as
/// Hugging Face transformers chooses. Null where there is none.
const ChatTemplateText* find_chat_template(const Tokenizer& tokenizer, bool with_tools);

/// The tokens of a rendered conversation. Special tokens count as such. Exactly one BOS stands in front where
/// the model wants one, whether or not the template writes it. Fails with kInvalidArgument where nothing was
/// rendered, and as Tokenizer::encode().
Result<std::vector<int32_t>> encode_conversation(const Tokenizer& tokenizer, std::string_view text);

}  // namespace soli
