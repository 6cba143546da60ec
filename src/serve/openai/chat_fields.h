#pragma once

#include <string>

#include "format/conversation.h"
#include "serve/openai/fields.h"
#include "serve/openai/served_model.h"

namespace soli::openai {

/// Reads "messages" and what else the chat template is given: reasoning_effort, chat_template_kwargs,
/// add_generation_prompt.
ChatInputs read_chat_inputs(Fields& fields, const ServedModel& model);

/// The text of a conversation. 400 with the template's own message where it raises an error.
ApiResult<std::string> render_chat(const ServedModel& model, const ChatInputs& inputs);

}  // namespace soli::openai
