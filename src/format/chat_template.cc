#include "format/chat_template.h"

#include "format/jinja/from_json.h"
#include "format/jinja/interpreter.h"
#include "format/jinja/parser.h"

namespace soli {
namespace {

constexpr const char* kContext = "chat template";

/// Sets the variables of a rendering.
class Inputs {
 public:
  Inputs(jinja::Context& context, jinja::Interpreter& interpreter)
      : context_(context), interpreter_(interpreter) {}

  Status set(std::string_view name, const nlohmann::ordered_json& json) {
    Result<jinja::Value> value = jinja::from_json(context_, json);
    if (!value) return in_context(fmt::format("'{}'", name), value.error());
    interpreter_.set(name, *std::move(value));
    return {};
  }

  Status set_all(const ChatInputs& inputs) {
    if (inputs.bos_token) SOLI_RETURN_IF_ERROR(set("bos_token", *inputs.bos_token));
    if (inputs.eos_token) SOLI_RETURN_IF_ERROR(set("eos_token", *inputs.eos_token));
    SOLI_RETURN_IF_ERROR(set("messages", inputs.messages));
    SOLI_RETURN_IF_ERROR(set("tools", inputs.tools));
    SOLI_RETURN_IF_ERROR(set("documents", inputs.documents));
    SOLI_RETURN_IF_ERROR(set("add_generation_prompt", inputs.add_generation_prompt));
    if (!inputs.variables.is_object()) {
      return fail(ErrorKind::kInvalidArgument, "the variables are a {}; an object is wanted",
                  inputs.variables.type_name());
    }
    for (const auto& [name, value] : inputs.variables.items()) {
      for (const char* const taken : {"messages", "tools", "documents", "add_generation_prompt"}) {
        if (name == taken) {
          return fail(ErrorKind::kInvalidArgument, "the variable '{}' is set by its own input", name);
        }
      }
      SOLI_RETURN_IF_ERROR(set(name, value));
    }
    return {};
  }

 private:
  jinja::Context& context_;
  jinja::Interpreter& interpreter_;
};

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  Result<jinja::Syntax> syntax = jinja::parse_template(source);
  if (!syntax) return in_context(kContext, syntax.error());
  return ChatTemplate(std::make_shared<const jinja::Syntax>(*std::move(syntax)));
}

Result<std::string> ChatTemplate::render(const ChatInputs& inputs, const jinja::RenderLimits& limits) const {
  jinja::Context context(limits, inputs.now);
  jinja::Interpreter interpreter(*syntax_, context);
  if (const Status status = Inputs(context, interpreter).set_all(inputs); !status) {
    return in_context(kContext, status.error());
  }
  Result<std::string> text = interpreter.run();
  if (!text) return in_context(kContext, text.error());
  return text;
}

}  // namespace soli
