#pragma once

// A model's own chat template: a conversation becomes the text that the model was trained to continue. The
// language is Jinja, with the settings of Hugging Face transformers (trim_blocks, lstrip_blocks, break and
// continue, the tag `generation`, tojson without HTML escapes, raise_exception, strftime_now), sandboxed: a
// template sees nothing but its inputs, changes nothing, and is bounded in steps, bytes and depth
// (format/jinja/limits.h). It runs on a stack of 256 KiB.

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/jinja/limits.h"

namespace soli {

namespace jinja {
struct Syntax;
}

/// What a template is rendered with, under the names that all templates use.
struct ChatInputs {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nullptr;      // a list, or null
  nlohmann::ordered_json documents = nullptr;  // a list, or null
  bool add_generation_prompt = true;           // end with the beginning of the assistant's answer
  std::optional<std::string> bos_token;        // absent: undefined for the template
  std::optional<std::string> eos_token;
  /// Further variables, such as enable_thinking. May stand in for the two tokens, not for the rest.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::optional<std::tm> now;  // what strftime_now() shows; absent: the time of day
};

/// Immutable; any thread may render.
class ChatTemplate {
 public:
  /// Fails with kMalformed, kUnsupported or kLimit: "chat template: line N: ...", naming what is allowed.
  static Result<ChatTemplate> parse(std::string_view source);

  /// The text of the conversation, valid UTF-8. Fails with kInvalidArgument where the template raises an
  /// error (its own message is in there) or does what Jinja does not allow, with kLimit where it goes beyond
  /// a limit.
  Result<std::string> render(const ChatInputs& inputs, const jinja::RenderLimits& limits = {}) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Syntax> syntax) : syntax_(std::move(syntax)) {}

  std::shared_ptr<const jinja::Syntax> syntax_;
};

}  // namespace soli
