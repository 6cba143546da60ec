#include "format/conversation.h"

#include <optional>

namespace soli {

void set_special_tokens(ChatInputs& inputs, const Tokenizer& tokenizer) {
  if (tokenizer.bos()) inputs.bos_token = tokenizer.token_text(*tokenizer.bos());
  if (tokenizer.eos()) inputs.eos_token = tokenizer.token_text(*tokenizer.eos());
}

const ChatTemplateText* find_chat_template(const Tokenizer& tokenizer, bool with_tools) {
  const ChatTemplateText* found = nullptr;
  for (const ChatTemplateText& candidate : tokenizer.chat_templates()) {
    if (candidate.name == "default" && found == nullptr) found = &candidate;
    if (candidate.name == "tool_use" && with_tools) found = &candidate;
  }
  return found;
}

Result<std::vector<int32_t>> encode_conversation(const Tokenizer& tokenizer, std::string_view text) {
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                        tokenizer.encode(text, {.add_special = false, .parse_special = true}));
  const std::optional<int32_t> bos = tokenizer.bos();
  if (tokenizer.adds_bos() && bos && (tokens.empty() || tokens.front() != *bos)) {
    tokens.insert(tokens.begin(), *bos);
  }
  if (tokens.empty()) {
    return fail(ErrorKind::kInvalidArgument, "the chat template makes an empty prompt of the conversation");
  }
  return tokens;
}

}  // namespace soli
