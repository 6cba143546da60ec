// soli render: the prompt that a chat template makes of a conversation.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/utf8.h"
#include "cli/chat_inputs.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/model_options.h"
#include "cli/open_tokenizer.h"
#include "cli/output.h"
#include "cli/text_input.h"

namespace soli::cli {
namespace {

struct RenderOptions {
  std::string model;
  std::string template_file;
  std::string messages;
  std::string tools;
  std::string documents;
  std::vector<std::string> variables;
  std::optional<std::string> date;
  bool no_generation_prompt = false;
};

/// "2024-07-26"; the time of day is midnight.
Result<std::tm> parse_date(const std::string& text) {
  std::tm date = {};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%d", &date);
  if (end == nullptr || *end != '\0') {
    return fail(ErrorKind::kInvalidArgument, "--date '{}': YYYY-MM-DD is wanted", printable(text));
  }
  return date;
}

Result<ChatInputs> read_inputs(const RenderOptions& options) {
  ChatInputs inputs;
  inputs.add_generation_prompt = !options.no_generation_prompt;
  if (options.messages.empty()) {
    SOLI_ASSIGN_OR_RETURN(const std::string text, read_standard_input(kMaxJsonBytes));
    SOLI_ASSIGN_OR_RETURN(inputs.messages, parse_json("standard input", text));
  } else {
    SOLI_ASSIGN_OR_RETURN(inputs.messages, read_json(options.messages));
  }
  if (!options.tools.empty()) {
    SOLI_ASSIGN_OR_RETURN(inputs.tools, read_json(options.tools));
  }
  if (!options.documents.empty()) {
    SOLI_ASSIGN_OR_RETURN(inputs.documents, read_json(options.documents));
  }
  for (const std::string& assignment : options.variables) {
    SOLI_RETURN_IF_ERROR(add_variable(inputs, assignment));
  }
  if (options.date) {
    SOLI_ASSIGN_OR_RETURN(inputs.now, parse_date(*options.date));
  }
  return inputs;
}

Result<int> run_render(const RenderOptions& options) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!options.model.empty()) {
    SOLI_ASSIGN_OR_RETURN(tokenizer, open_tokenizer(options.model));
  }
  SOLI_ASSIGN_OR_RETURN(const ChatTemplate chat_template,
                        options.template_file.empty()
                            ? template_of(*tokenizer, options.model, !options.tools.empty())
                            : read_template(options.template_file));
  SOLI_ASSIGN_OR_RETURN(ChatInputs inputs, read_inputs(options));
  if (tokenizer != nullptr) set_special_tokens(inputs, *tokenizer);
  SOLI_ASSIGN_OR_RETURN(const std::string prompt, chat_template.render(inputs));
  write_text(prompt);
  return kExitDone;
}

}  // namespace

Command add_render(CLI::App& program) {
  CLI::App* const app =
      program.add_subcommand("render", "Show the prompt that a chat template makes of a conversation");
  const auto options = std::make_shared<RenderOptions>();
  CLI::Option* const model =
      add_model_path(*app, options->model)->required(false)->description(kTokenizerPaths);
  CLI::Option* const file = add_path(*app, "--template", options->template_file,
                                     "A template in a file, instead of the model's own");
  file->type_name("FILE");
  add_path(*app, "--messages", options->messages, "The messages, a list in JSON; else standard input")
      ->type_name("FILE");
  add_path(*app, "--tools", options->tools, "Tools that the model may call, a list in JSON")
      ->type_name("FILE");
  add_path(*app, "--documents", options->documents, "Documents for the model, a list in JSON")
      ->type_name("FILE");
  app->add_flag("--no-generation-prompt", options->no_generation_prompt,
                "Do not end with the beginning of the assistant's answer");
  add_variables(*app, options->variables);
  add_text(*app, "--date", options->date, "The day that strftime_now() shows; else today")
      ->type_name("YYYY-MM-DD");
  app->callback([model, file] {
    if (model->empty() && file->empty()) throw CLI::RequiredError("MODEL or --template");
  });
  app->footer(
      "With MODEL the template is the model's own, and bos_token and eos_token are its tokens. Not a byte is "
      "added to the prompt.\n\n"
      "Examples:\n"
      "  soli render model.gguf --messages conversation.json\n"
      "  soli render model.gguf --messages conversation.json --tools tools.json --var enable_thinking=false\n"
      "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | soli render --template chat.jinja");
  return {app, [options] { return run_render(*options); }};
}

}  // namespace soli::cli
