#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "format/conversation.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace soli::cli {

/// Longest file of messages, tools or documents, in bytes.
inline constexpr int64_t kMaxJsonBytes = int64_t{64} << 20;

/// Reads one value of JSON from a file. Fails with kMalformed, naming the file and the place, for what is no
/// JSON or nests deeper than a template could take it.
Result<nlohmann::ordered_json> read_json(const std::string& path);
/// The same from text; `name` is for errors.
Result<nlohmann::ordered_json> parse_json(const std::string& name, const std::string& text);

/// Adds --var, which may be given several times; each is for add_variable().
CLI::Option* add_variables(CLI::App& app, std::vector<std::string>& assignments);
/// "name=value": the value is JSON, or a text where it is none. Fails with kInvalidArgument.
Status add_variable(ChatInputs& inputs, const std::string& assignment);

/// The template in a file. Errors name the file.
Result<ChatTemplate> read_template(const std::string& path);
/// The template that a model carries, as find_chat_template() chooses. Fails with kNotFound where there is
/// none, naming what is allowed; `model` is for errors.
Result<ChatTemplate> template_of(const Tokenizer& tokenizer, const std::string& model, bool with_tools);

}  // namespace soli::cli
