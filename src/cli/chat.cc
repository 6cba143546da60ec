#include "cli/chat.h"

#include <utility>

#include "cli/chat_inputs.h"

namespace soli::cli {
namespace {

nlohmann::ordered_json message_of(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

Chat::Chat(const Tokenizer& tokenizer, ChatTemplate chat_template, const RunOptions& options)
    : tokenizer_(&tokenizer), template_(std::move(chat_template)), system_(options.system) {
  set_special_tokens(inputs_, tokenizer);
  reset();
}

Result<Chat> Chat::create(Session& session, const RunOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  Result<ChatTemplate> chat_template = options.template_file.empty()
                                           ? template_of(*tokenizer, session.options().path, false)
                                           : read_template(options.template_file);
  if (!chat_template) {
    return fail(chat_template.error().kind, "{}; --no-template continues plain text",
                chat_template.error().message);
  }
  Chat chat(*tokenizer, *std::move(chat_template), options);
  for (const std::string& assignment : options.variables) {
    SOLI_RETURN_IF_ERROR(add_variable(chat.inputs_, assignment));
  }
  return chat;
}

Result<bool> Chat::is_possible(Session& session) {
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  return !tokenizer->chat_templates().empty();
}

Result<std::vector<int32_t>> Chat::prompt_with(const std::string& message) const {
  ChatInputs inputs = inputs_;
  inputs.messages.push_back(message_of("user", message));
  SOLI_ASSIGN_OR_RETURN(const std::string text, template_.render(inputs));
  return encode_conversation(*tokenizer_, text);
}

void Chat::add(const std::string& message, const std::string& answer) {
  inputs_.messages.push_back(message_of("user", message));
  inputs_.messages.push_back(message_of("assistant", answer));
}

void Chat::reset() {
  inputs_.messages = nlohmann::ordered_json::array();
  if (system_) inputs_.messages.push_back(message_of("system", *system_));
}

}  // namespace soli::cli
