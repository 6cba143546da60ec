// soli tokenize: text to token ids and back.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/model_options.h"
#include "cli/open_tokenizer.h"
#include "cli/output.h"
#include "cli/text_input.h"
#include "format/tokenizer.h"

namespace soli::cli {
namespace {

struct TokenizeOptions {
  std::string path;
  std::optional<std::string> text;
  std::string text_file;
  std::vector<int32_t> ids;  // to be turned into text
  bool no_special = false;
  bool parse_special = false;
  bool json = false;
};

Result<std::string> input_text(const TokenizeOptions& options) {
  if (options.text) return *options.text;
  if (!options.text_file.empty()) return read_text(options.text_file, kMaxEvaluatedBytes);
  return read_standard_input(kMaxEvaluatedBytes);
}

Result<int> detokenize(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  for (const int32_t id : options.ids) {
    if (id >= tokenizer.vocab_size()) {
      return fail(ErrorKind::kInvalidArgument,
                  "--detokenize: token id {} is not in the vocabulary of {} tokens", id,
                  tokenizer.vocab_size());
    }
  }
  const std::string text = tokenizer.decode(options.ids, {.render_special = !options.no_special});
  if (options.json) {
    print_json({{"text", text}});
  } else {
    print("{}\n", text);
  }
  return kExitDone;
}

Result<int> run_tokenize(const TokenizeOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(options.path));
  if (!options.ids.empty()) return detokenize(options, *tokenizer);
  SOLI_ASSIGN_OR_RETURN(const std::string text, input_text(options));
  SOLI_ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      tokenizer->encode(text, {.add_special = !options.no_special, .parse_special = options.parse_special}));
  if (options.json) {
    nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
    for (const int32_t id : ids) tokens.push_back({{"id", id}, {"piece", tokenizer->piece(id, true)}});
    print_json({{"ids", ids}, {"tokens", tokens}});
  } else {
    for (const int32_t id : ids) print("{:>7}  '{}'\n", id, printable(tokenizer->piece(id, true)));
  }
  return kExitDone;
}

}  // namespace

Command add_tokenize(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("tokenize", "Turn text into token ids, or ids into text");
  const auto options = std::make_shared<TokenizeOptions>();
  add_model_path(*app, options->path)->description(kTokenizerPaths);
  CLI::Option* const text = add_text(*app, "-p,--prompt", options->text, "The text");
  CLI::Option* const file = add_path(*app, "-f,--file", options->text_file, "Read the text from a file");
  file->type_name("FILE")->excludes(text);
  add_token_ids(*app, "--detokenize", options->ids, "Print the text of these ids instead")
      ->excludes(text, file);
  app->add_flag(
      "--no-special", options->no_special,
      "Leave out what the model wants around a text (BOS, EOS); with --detokenize: hide control tokens");
  app->add_flag("--parse-special", options->parse_special,
                "Texts like '<|im_start|>' become their control token");
  app->add_flag("--json", options->json, "Print one JSON object");
  app->footer(
      "Without -p and -f the text is read from standard input. Only the vocabulary of the file is used; that "
      "of a\n"
      "tokenizer.json comes with the tokenizer_config.json beside it.\n\n"
      "Examples:\n"
      "  soli tokenize model.gguf -p \"Hello, world\"\n"
      "  soli tokenize model.gguf --detokenize 1,15043,29892,3186\n"
      "  soli tokenize Qwen3-30B-A3B/tokenizer.json -p \"Hello, world\"");
  return {app, [options] { return run_tokenize(*options); }};
}

}  // namespace soli::cli
