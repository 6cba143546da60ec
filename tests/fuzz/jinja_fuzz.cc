// Templates and conversations from anywhere: an error or a text, within the limits. An input is an object of
// JSON with the variables, a line "---", and the template.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "format/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr std::string_view kSeparator = "\n---\n";
  constexpr soli::jinja::RenderLimits kLimits = {
      .steps = 200'000, .output_bytes = 100'000, .value_bytes = 2'000'000};
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find(kSeparator);
  const std::string_view source =
      cut == std::string_view::npos ? input : input.substr(cut + kSeparator.size());

  const soli::Result<soli::ChatTemplate> chat_template = soli::ChatTemplate::parse(source);
  if (!chat_template) {
    const std::string& message = chat_template.error().message;
    SOLI_CHECK(message.starts_with("chat template"), "an error says where it is from");
    SOLI_CHECK(soli::printable(message, message.size()) == message, "an error is one line");
    return 0;
  }
  soli::ChatInputs inputs;
  inputs.bos_token = "<s>";
  inputs.now = std::tm{};
  inputs.now->tm_mday = 1;
  if (cut != std::string_view::npos) {
    auto json = nlohmann::ordered_json::parse(input.substr(0, cut), nullptr, false);
    if (json.is_object()) {
      for (const auto& [name, value] : json.items()) {
        if (name == "messages") {
          inputs.messages = value;
        } else if (name == "tools") {
          inputs.tools = value;
        } else {
          inputs.variables[name] = value;
        }
      }
    }
  }
  const soli::Result<std::string> text = chat_template->render(inputs, kLimits);
  if (!text) {
    const std::string& message = text.error().message;
    SOLI_CHECK(message.starts_with("chat template"), "an error says where it is from");
    SOLI_CHECK(soli::printable(message, message.size()) == message, "an error is one line");
    return 0;
  }
  SOLI_CHECK(soli::is_valid_utf8(*text), "a text is UTF-8");
  SOLI_CHECK(text->size() <= kLimits.output_bytes, "a text keeps its limit");
  SOLI_CHECK(*chat_template->render(inputs, kLimits) == *text, "the same again");
  return 0;
}
