#include "cli/diagnose_options.h"

#include <limits>

#include "cli/flags.h"

namespace soli::cli {

void add_diagnose_options(CLI::App& app, DiagnoseOptions& options) {
  add_model_options(app, options.model);
  CLI::Option* const prompt = add_text(app, "-p,--prompt", options.prompt, "The text");
  add_path(app, "-f,--file", options.prompt_file, "Read the text from a file")->excludes(prompt);
  app.add_flag("--parse-special", options.parse_special,
               "Texts like '<|im_start|>' become their control token");
  add_integer(app, "-n,--predict", options.n_generated, {0, kMostDiagnosedTokens},
              "Let the model go on with N tokens, the most likely ones, and diagnose those too");
  add_integer(app, "--max-tokens", options.max_tokens, {1, kMostDiagnosedTokens},
              "Tokens to diagnose, BOS included; a longer text is cut");
  add_integer(app, "--layer", options.layer, {0, std::numeric_limits<int32_t>::max()},
              "The layer that is listed, and whose experts colour the text")
      ->default_str("the last one with experts");
  add_integer(app, "--token", options.position, {0, std::numeric_limits<int32_t>::max()},
              "List all layers of the token at this position instead")
      ->default_str("");
  add_integer(app, "--top", options.n_top, {0, 100},
              "Tokens that each expert's output alone would say; 0: no logit lens, which takes most of the "
              "time");
  add_number(app, "--active-above", options.active_above, {0, 1000},
             "An inner unit of an expert is active above so many times the root mean square of all of them");
  add_integer(app, "--seed", options.seed, {0, std::numeric_limits<int64_t>::max()},
              "Seed of the permutations");
  add_choice<DiagnosisView::ColourBy>(
      app, "--colour-by", options.colour_by,
      {{"experts", DiagnosisView::ColourBy::kExperts}, {"segments", DiagnosisView::ColourBy::kSegments}},
      "What colours tell on a terminal: the expert with the largest weight, "
      "or the parts between change points");
  app.add_flag("--json", options.json, "Print one JSON object, with every layer");
  add_path(app, "--html", options.html, "Write a page that shows every token's path");
}

}  // namespace soli::cli
