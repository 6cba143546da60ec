#include "format/hf/config.h"

#include <filesystem>
#include <utility>

#include "base/utf8.h"
#include "format/hf/json.h"
#include "io/file.h"

namespace soli::hf {
namespace {

constexpr std::string_view kDefault = "default";

/// A token is its text, or an object with its text as "content".
Status read_token(const JsonValue& root, std::string_view key, std::optional<std::string>& out) {
  const auto value = root.find(key);
  if (!value) return {};
  if (value->is_object()) {
    SOLI_ASSIGN_OR_RETURN(out, value->text_at("content"));
    return {};
  }
  SOLI_ASSIGN_OR_RETURN(out, value->text());
  return {};
}

Status read_flag(const JsonValue& root, std::string_view key, std::optional<bool>& out) {
  const auto value = root.find(key);
  if (!value) return {};
  SOLI_ASSIGN_OR_RETURN(out, value->flag());
  return {};
}

/// One template, or a list of templates with names.
Status read_chat_templates(const JsonValue& value, std::vector<ChatTemplateText>& out) {
  if (value.is_text()) {
    SOLI_ASSIGN_OR_RETURN(std::string text, value.text());
    out.push_back({std::string(kDefault), std::move(text)});
    return {};
  }
  if (!value.is_array()) return value.wrong("a string, or an array of named templates");
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, value.items(kMaxChatTemplates));
  for (const JsonValue& item : items) {
    SOLI_ASSIGN_OR_RETURN(std::string name, item.text_at("name"));
    SOLI_ASSIGN_OR_RETURN(std::string text, item.text_at("template"));
    for (const ChatTemplateText& other : out) {
      if (other.name != name) continue;
      return fail(ErrorKind::kMalformed, "{}.name is '{}', as that of another", item.path(), printable(name));
    }
    out.push_back({std::move(name), std::move(text)});
  }
  return {};
}

Result<std::optional<std::string>> read_if_there(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<std::string>();
  SOLI_ASSIGN_OR_RETURN(std::string text, read_file(path, kMaxConfigBytes));
  return std::optional<std::string>(std::move(text));
}

}  // namespace

Result<TokenizerConfig> parse_config(std::string_view json) {
  SOLI_ASSIGN_OR_RETURN(const JsonFile file, parse_json(json));
  const JsonValue root(file.root, "");
  if (!root.is_object()) return root.wrong("an object");
  TokenizerConfig config;
  SOLI_RETURN_IF_ERROR(read_token(root, "bos_token", config.bos));
  SOLI_RETURN_IF_ERROR(read_token(root, "eos_token", config.eos));
  SOLI_RETURN_IF_ERROR(read_flag(root, "add_bos_token", config.add_bos));
  SOLI_RETURN_IF_ERROR(read_flag(root, "add_eos_token", config.add_eos));
  if (const auto value = root.find("chat_template")) {
    SOLI_RETURN_IF_ERROR(read_chat_templates(*value, config.chat_templates));
  }
  return config;
}

Result<TokenizerConfig> read_config(const std::string& folder) {
  TokenizerConfig config;
  const std::string path = folder + "/tokenizer_config.json";
  SOLI_ASSIGN_OR_RETURN(const std::optional<std::string> json, read_if_there(path));
  if (json) {
    Result<TokenizerConfig> parsed = parse_config(*json);
    if (!parsed) return in_context(path, std::move(parsed).error());
    config = *std::move(parsed);
  }
  const std::string template_path = folder + "/chat_template.jinja";
  SOLI_ASSIGN_OR_RETURN(std::optional<std::string> text, read_if_there(template_path));
  if (!text) return config;
  if (!is_valid_utf8(*text)) return fail(ErrorKind::kMalformed, "{} is not UTF-8", template_path);
  std::erase_if(config.chat_templates, [](const ChatTemplateText& t) { return t.name == kDefault; });
  config.chat_templates.insert(config.chat_templates.begin(), {std::string(kDefault), *std::move(text)});
  return config;
}

}  // namespace soli::hf
