#include "cli/eval_options.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "cli/flags.h"

namespace soli::cli {

void add_text_options(CLI::App& app, EvalOptions& options, const std::string& default_window) {
  CLI::Option* const text = add_path(app, "--text", options.texts.file, "The text, or NAME.jsonl");
  CLI::Option* const folder = add_path(app, "--data", options.texts.folder,
                                       "A folder of texts NAME.txt or NAME.jsonl (\"text\" or \"prompt\" of "
                                       "each line), one for each domain")
                                  ->type_name("DIR")
                                  ->excludes(text);
  add_integer(app, "--window", options.window, {0, kMaxContextLength},
              "Positions of a window, BOS included; 0: " + default_window);
  add_integer(app, "--max-tokens", options.texts.max_tokens, {0, std::numeric_limits<int64_t>::max()},
              "Evaluate the first N tokens of a text only; 0: all");
  add_integer(app, "--parallel", options.n_parallel, {1, 256}, "Windows that share a step");
  app.callback([text, folder] {
    if (text->empty() && folder->empty()) throw CLI::RequiredError("--text FILE or --data DIR");
  });
}

}  // namespace soli::cli
