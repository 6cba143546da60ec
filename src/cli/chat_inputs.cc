#include "cli/chat_inputs.h"

#include <CLI/CLI.hpp>

#include "base/utf8.h"
#include "cli/text_input.h"

namespace soli::cli {

using Json = nlohmann::ordered_json;

Result<Json> parse_json(const std::string& name, const std::string& text) {
  bool too_deep = false;
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > jinja::kMaxValueDepth;
    return !too_deep;  // what is deeper is left out
  };
  try {
    Json json = Json::parse(text, check_depth);
    if (!too_deep) return json;
  } catch (const Json::exception& error) {
    return fail(ErrorKind::kMalformed, "{}: no JSON: {}", name, printable(error.what(), 300));
  }
  return fail(ErrorKind::kLimit, "{}: nests deeper than the {} levels allowed", name, jinja::kMaxValueDepth);
}

Result<Json> read_json(const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxJsonBytes));
  return parse_json(path, text);
}

CLI::Option* add_variables(CLI::App& app, std::vector<std::string>& assignments) {
  return app
      .add_option(
          "--var", assignments,
          "A variable of the chat template, such as enable_thinking=false: JSON, or a text where it is "
          "none; may be given several times")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

Status add_variable(ChatInputs& inputs, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(ErrorKind::kInvalidArgument, "--var '{}': NAME=VALUE is wanted", printable(assignment));
  }
  const std::string name = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  const Result<Json> json = parse_json("--var", text);
  inputs.variables[name] = json ? *json : Json(text);
  return {};
}

Result<ChatTemplate> read_template(const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const std::string source, read_text(path, jinja::kMaxSourceBytes));
  Result<ChatTemplate> chat_template = ChatTemplate::parse(source);
  if (!chat_template) return in_context(path, chat_template.error());
  return chat_template;
}

Result<ChatTemplate> template_of(const Tokenizer& tokenizer, const std::string& model, bool with_tools) {
  const ChatTemplateText* const found = find_chat_template(tokenizer, with_tools);
  if (found == nullptr) {
    return fail(ErrorKind::kNotFound, "{}: the model carries no chat template; --template FILE gives one",
                model);
  }
  Result<ChatTemplate> chat_template = ChatTemplate::parse(found->text);
  if (!chat_template) return in_context(model, chat_template.error());
  return chat_template;
}

}  // namespace soli::cli
