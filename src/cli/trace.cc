// soli trace: looks into the files that --trace has written.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "observe/trace_export.h"
#include "observe/trace_statistics.h"

namespace soli::cli {
namespace {

struct TraceCommandOptions {
  std::string file;
  TraceRange range;
  TraceFormat format = TraceFormat::kCsv;
  std::string out;
  bool json = false;
};

/// A number, or nothing at all, which is `otherwise`.
bool parse_position(std::string_view text, int64_t otherwise, int64_t& value) {
  value = otherwise;
  if (text.empty()) return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

/// "A:B", "A:", ":B" or "A".
void add_range(CLI::App& app, TraceRange& range) {
  add_integer(app, "--request", range.request, {0, int64_t{1} << 62}, "Of this request only");
  const auto set = [&range](const std::string& text) {
    const size_t colon = text.find(':');
    const std::string_view view = text;
    const TraceRange all;
    bool is_right = parse_position(view.substr(0, colon), all.begin, range.begin);
    if (colon == std::string::npos) {
      range.end = range.begin + 1;
      is_right = is_right && !text.empty();
    } else {
      is_right = is_right && parse_position(view.substr(colon + 1), all.end, range.end);
    }
    if (is_right && range.begin < range.end) return;
    throw CLI::ValidationError("--positions: '" + printable(text) +
                               "' is not A:B with A below B, A:, :B or A");
  };
  app.add_option_function<std::string>("--positions", set, "From position A to before B only")
      ->type_name("A:B");
}

void add_trace_file(CLI::App& app, TraceCommandOptions& options) {
  add_path(app, "file", options.file, "The trace")->required()->type_name("FILE");
}

/// One line for each token and layer.
void show_row(const TraceRow& row, const TraceShape& shape) {
  std::string text;
  for (int64_t l = 0; l < shape.n_layers(); ++l) {
    text += fmt::format("{:>8} {:>7}{} {:>6} ", row.position, row.token, row.is_cached ? '*' : ' ',
                        shape.moe_layers[static_cast<size_t>(l)]);
    const auto ids = ids_of_layer(row, shape, l);
    const auto weights = weights_of_layer(row, shape, l);
    for (size_t i = 0; i < ids.size(); ++i) text += fmt::format(" {:>4} {:.4f}", ids[i], weights[i]);
    text += ids.empty() ? " none\n" : "\n";
  }
  write_output(text);
}

Result<int> show_trace(const TraceCommandOptions& options) {
  SOLI_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(options.file));
  SOLI_ASSIGN_OR_RETURN(const std::vector<TraceRequest> requests, reader.requests());
  print("{}", render_text(reader.info()));
  std::optional<uint64_t> shown;
  SOLI_RETURN_IF_ERROR(reader.for_each_row(options.range, false, [&](const TraceRow& row) -> Status {
    if (shown != row.request) {
      const auto found = std::lower_bound(requests.begin(), requests.end(), row.request,
                                          [](const TraceRequest& r, uint64_t id) { return r.id < id; });
      const bool is_known = found != requests.end() && found->id == row.request;
      print("\nrequest {}", row.request);
      if (is_known) print(", {} tokens in the prompt", found->n_prompt);
      if (is_known && found->policy != "{}") print(", policy {}", printable(found->policy, 1000));
      print("\nposition   token   layer  experts, each with its weight\n");
    }
    shown = row.request;
    show_row(row, reader.shape());
    return {};
  }));
  if (shown) return kExitDone;
  return fail(ErrorKind::kNotFound, "{}: no token is of {}", options.file,
              options.range.request < 0
                  ? "these positions"
                  : fmt::format("request {} and these positions", options.range.request));
}

Result<int> trace_statistics(const TraceCommandOptions& options) {
  SOLI_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(options.file));
  SOLI_ASSIGN_OR_RETURN(const TraceFigures figures, count_trace(reader));
  if (options.json) {
    print_json(to_json(reader.info(), figures));
  } else {
    print("{}", render_text(reader.info(), figures));
  }
  return kExitDone;
}

Result<int> export_to_file(const TraceCommandOptions& options) {
  if (options.file == options.out)
    return fail(ErrorKind::kInvalidArgument, "{}: it is the trace, and would be written over", options.out);
  SOLI_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(options.file));
  SOLI_RETURN_IF_ERROR(export_trace(reader, options.range, options.format, options.out));
  return kExitDone;
}

void add_export_options(CLI::App& app, TraceCommandOptions& options) {
  add_trace_file(app, options);
  add_choice<TraceFormat>(
      app, "--format", options.format,
      {{"csv", TraceFormat::kCsv},
       {"npz", TraceFormat::kNpz},
       {"megatron", TraceFormat::kMegatron},
       {"sglang", TraceFormat::kSgLang}},
      "A line per call; NumPy arrays; JSON lines as Megatron-LM traces routers; JSON lines "
      "with Base64 as SGLang answers routed experts")
      ->required();
  add_path(app, "-o,--out", options.out, "The file to write")->required();
  add_range(app, options.range);
}

}  // namespace

Command add_trace(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("trace", "Look into a trace of the router, or export it");
  const auto options = std::make_shared<TraceCommandOptions>();
  CLI::App* const show = app->add_subcommand("show", "Print the experts of each token, layer by layer");
  add_trace_file(*show, *options);
  add_range(*show, options->range);
  CLI::App* const stats =
      app->add_subcommand("stats", "Print what was recorded and lost, and how each layer's calls spread");
  add_trace_file(*stats, *options);
  stats->add_flag("--json", options->json, "Print one JSON object");
  CLI::App* const to_file = app->add_subcommand("export", "Write the choices in another format");
  add_export_options(*to_file, *options);
  app->require_subcommand(1);
  app->footer(
      "run, eval, bench, serve and logits write a trace with --trace FILE. docs/tracing.md describes the "
      "file "
      "and the formats.\n\n"
      "Examples:\n"
      "  soli trace show sea.sqlite --request 1 --positions 0:8\n"
      "  soli trace stats sea.sqlite --json\n"
      "  soli trace export sea.sqlite --format npz -o sea.npz\n"
      "  sqlite3 sea.sqlite 'SELECT request, count(*) FROM tokens GROUP BY request'");
  return {app, [show, stats, options]() -> Result<int> {
            if (show->parsed()) return show_trace(*options);
            return stats->parsed() ? trace_statistics(*options) : export_to_file(*options);
          }};
}

}  // namespace soli::cli
