#pragma once

#include <cstdint>
#include <string>

#include "cli/model_options.h"

namespace CLI {
class App;
}

namespace soli::cli {

/// Which texts a command reads.
struct TextSelection {
  std::string file;        // one text, or
  std::string folder;      // of texts, one for each domain
  int64_t max_tokens = 0;  // of each text, from its beginning; 0: all
};

struct EvalOptions {
  ModelOptions model;
  TextSelection texts;
  int64_t window = 0;  // 0: the context
  int64_t n_parallel = 4;
  bool against_exact = false;
  std::string sweep;  // KEY=VALUES, or ""
  std::string svg;    // a file to write, or ""
  bool json = false;
};

/// Adds --text, --data, --window, --max-tokens and --parallel, of which one of the first two is required.
/// `default_window`: as the help tells what --window 0 is.
void add_text_options(CLI::App& app, EvalOptions& options, const std::string& default_window = "the context");

}  // namespace soli::cli
