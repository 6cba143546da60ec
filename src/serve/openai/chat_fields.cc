#include "serve/openai/chat_fields.h"

#include <array>
#include <cctype>
#include <utility>

#include "base/utf8.h"

namespace soli::openai {
namespace {

/// A content is text, or a list of parts that are text. Several are joined by line breaks.
Json read_content(Fields& message, const Json& content) {
  if (content.is_string()) return content;
  if (!content.is_array()) {
    message.fail_value("content", content, "a string, or a list of parts of type 'text'");
    return nullptr;
  }
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    if (message.failed()) break;
    const std::string path = message.path_of(fmt::format("content[{}]", i));
    if (!content[i].is_object()) {
      message.fail_value(fmt::format("content[{}]", i), content[i], "an object of type 'text'");
      break;
    }
    Fields part(content[i], fmt::format("{}.", path));
    const std::optional<std::string> type = part.text("type");
    if (!part.failed() && type != "text") {
      message.fail(bad_request("unsupported_parameter", path + ".type",
                               "'{}.type' is {}; this model takes parts of type 'text'", path,
                               type ? fmt::format("'{}'", printable(*type)) : "missing"));
      break;
    }
    const std::optional<std::string> text = part.text("text");
    if (!text && !part.failed()) {
      part.fail(bad_request("missing_required_parameter", path + ".text", "'{}.text' is missing", path));
    }
    if (const ApiStatus status = part.finish(); !status) message.fail(status.error());
    if (i > 0) joined += '\n';
    if (text) joined += *text;
  }
  return joined;
}

/// What clients send back of an answer of theirs, and what says nothing.
void read_neutral_members(Fields& message) {
  message.neutral("refusal", {""});
  message.neutral("audio", {});
  message.neutral("function_call", {});
  message.neutral("annotations", {Json::array()});
}

Json read_message(const Json& json, const std::string& path, Fields& fields) {
  Fields message(json, path + ".");
  Json result = Json::object();
  const std::optional<std::string> role = message.text("role");
  if (role && !role->empty()) {
    result["role"] = *role;
  } else {
    message.fail(bad_request("missing_required_parameter", path + ".role", "'{}.role' is missing", path));
  }
  const Json* const content = message.find("content");
  const Json* const tool_calls = message.find("tool_calls");
  if (content != nullptr) {
    result["content"] = read_content(message, *content);
  } else if (tool_calls != nullptr) {
    result["content"] = nullptr;
  } else {
    message.fail(
        bad_request("missing_required_parameter", path + ".content", "'{}.content' is missing", path));
  }
  if (tool_calls != nullptr) {
    if (!tool_calls->is_array()) message.fail_value("tool_calls", *tool_calls, "a list");
    result["tool_calls"] = *tool_calls;
  }
  for (const char* const name : {"name", "tool_call_id", "reasoning_content", "reasoning", "thinking"}) {
    if (std::optional<std::string> text = message.text(name)) result[name] = *std::move(text);
  }
  read_neutral_members(message);
  if (const ApiStatus status = message.finish(); !status) fields.fail(status.error());
  return result;
}

void read_messages(Fields& fields, ChatInputs& inputs) {
  const Json* const messages = fields.find("messages");
  if (messages == nullptr) {
    return fields.fail(bad_request("missing_required_parameter", "messages",
                                   "'messages' is missing; a list of messages is wanted"));
  }
  if (!messages->is_array() || messages->empty()) {
    return fields.fail_value("messages", *messages, "a list with at least one message");
  }
  for (size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    const std::string path = fmt::format("messages[{}]", i);
    if (!(*messages)[i].is_object()) return fields.fail_value(path, (*messages)[i], "an object");
    inputs.messages.push_back(read_message((*messages)[i], path, fields));
  }
}

/// Whether a template speaks of a variable at all: setting one that it does not would be ignored.
bool mentions(std::string_view source, std::string_view name) {
  const auto part_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (size_t at = source.find(name); at != std::string_view::npos; at = source.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !part_of_name(source[at - 1])) && (end == source.size() || !part_of_name(source[end]))) {
      return true;
    }
  }
  return false;
}

void set_variable(Fields& fields, const ServedModel& model, const std::string& path, const std::string& name,
                  const Json& value, ChatInputs& inputs) {
  if (name.empty() || !mentions(model.chat_template_text, name)) {
    return fields.fail(bad_request("unsupported_parameter", path,
                                   "'{}' is {}, and the chat template of '{}' has no such variable", path,
                                   shown(value), model.id));
  }
  inputs.variables[name] = value;
}

void read_variables(Fields& fields, const ServedModel& model, ChatInputs& inputs) {
  if (const Json* const effort = fields.find("reasoning_effort"); effort != nullptr) {
    if (!effort->is_string()) return fields.fail_value("reasoning_effort", *effort, "a string");
    set_variable(fields, model, "reasoning_effort", "reasoning_effort", *effort, inputs);
  }
  const Json* const variables = fields.find("chat_template_kwargs");
  if (variables == nullptr) return;
  if (!variables->is_object()) return fields.fail_value("chat_template_kwargs", *variables, "an object");
  for (const auto& [name, value] : variables->get_ref<const Json::object_t&>()) {
    const std::string path = fmt::format("chat_template_kwargs.{}", printable(name));
    for (const char* const taken : {"messages", "tools", "documents", "add_generation_prompt"}) {
      if (name != taken) continue;
      return fields.fail(bad_request("invalid_value", path, "'{}' is set by the request itself", path));
    }
    set_variable(fields, model, path, name, value, inputs);
  }
}

}  // namespace

ChatInputs read_chat_inputs(Fields& fields, const ServedModel& model) {
  ChatInputs inputs;
  if (model.chat_template == nullptr) {
    fields.fail(bad_request("unsupported_parameter", "messages",
                            "the model '{}' has no chat template; /v1/completions continues plain text",
                            model.id));
    return inputs;
  }
  set_special_tokens(inputs, *model.tokenizer);
  read_messages(fields, inputs);
  read_variables(fields, model, inputs);
  inputs.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  return inputs;
}

ApiResult<std::string> render_chat(const ServedModel& model, const ChatInputs& inputs) {
  auto text = model.chat_template->render(inputs);
  if (text) return *std::move(text);
  return tl::unexpected(
      ApiError{400, kInvalidRequest, "chat_template_error", "messages", text.error().message});
}

}  // namespace soli::openai
