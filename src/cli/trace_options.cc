#include "cli/trace_options.h"

#include <CLI/CLI.hpp>

#include "cli/flags.h"

namespace soli::cli {

void add_trace_options(CLI::App& app, TraceOptions& options) {
  CLI::Option* const file = add_path(
      app, "--trace", options.file,
      "Record every choice of the router into a new SQLite file, for soli trace; docs/tracing.md has "
      "its tables");
  CLI::Option* const others[] = {
      app.add_flag("--trace-overwrite", options.overwrite, "Replace a trace that is there already"),
      add_number(app, "--trace-sample", options.sampling.share, {0, 1, true},
                 "Record this share only, chosen by a hash of the numbers of requests and positions"),
      add_choice<bool>(app, "--trace-sample-of", options.sampling.of_tokens,
                       {{"requests", false}, {"tokens", true}},
                       "What the share is of: requests, each of them whole, or all tokens"),
      app.add_flag("--trace-logits", options.logits, "Record the router's logits of all experts too"),
      add_bytes(app, "--trace-buffer", options.buffer_bytes,
                "Memory for tokens on their way to the file; those that find no room are lost, and counted")};
  for (CLI::Option* const other : others) other->needs(file);
}

}  // namespace soli::cli
