// soli replay: runs a model on the choices of a trace, or an expert memory without a model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/replay_cache.h"
#include "cli/replay_model.h"
#include "cli/replay_report.h"
#include "io/file.h"
#include "io/file_writer.h"

namespace soli::cli {
namespace {

struct ReplayOptions {
  ModelReplay model;
  CacheReplay cache;
  bool only_cache = false;
  std::string csv;  // a file to write, or ""
  bool json = false;
};

Status check_csv(const std::string& csv, const std::string& trace) {
  if (csv.empty()) return {};
  std::error_code unknown;  // then they are two
  if (std::filesystem::equivalent(csv, trace, unknown))
    return fail(ErrorKind::kInvalidArgument, "--csv {}: it is the trace, and would be written over", csv);
  return FileWriter::check(csv);
}

Result<int> run_cache_replay(const ReplayOptions& options) {
  CacheReplay replay = options.cache;
  replay.trace = options.model.trace;
  replay.request = options.model.request;
  replay.policy = options.model.model.memory.policy;
  SOLI_RETURN_IF_ERROR(check_csv(options.csv, replay.trace));
  SOLI_ASSIGN_OR_RETURN(const CacheFigures figures, replay_cache(replay));
  if (options.json) {
    print_json(to_json(figures));
  } else {
    print("{}", render_text(figures));
  }
  if (options.csv.empty()) return kExitDone;
  const std::string csv = render_csv(figures);
  SOLI_RETURN_IF_ERROR(write_file(options.csv, std::as_bytes(std::span(csv))));
  return kExitDone;
}

Result<int> run_model_replay(const ReplayOptions& options) {
  const Result<ReplayFigures> figures = replay_model(options.model);
  if (!figures && figures.error().kind == ErrorKind::kCancelled) {
    print_note("soli: interrupted\n");
    return kExitInterrupted;
  }
  if (!figures) return tl::unexpected<Error>(figures.error());
  if (options.json) {
    print_json(to_json(*figures));
  } else {
    print("{}", render_text(*figures));
  }
  return kExitDone;
}

void add_replay_model_options(CLI::App& app, ModelReplay& options) {
  add_model_options(app, options.model);
  app.get_option("model")->required(false);
  add_integer(app, "--request", options.request, {0, int64_t{1} << 62}, "Of this request only");
  add_choice<ReplayWeights>(
      app, "--weights", options.weights,
      {{"recorded", ReplayWeights::kRecorded}, {"router", ReplayWeights::kRouter}},
      "Weights of the recorded experts: as they were recorded, or by the model's own router");
  add_choice<bool>(app, "--against", options.against_own, {{"own", true}, {"none", false}},
                   "own: measure the model's own routing on the same tokens too, and tell how far apart the "
                   "two are");
  app.add_flag("--skip-incomplete", options.skips_incomplete,
               "Leave out requests of which tokens are missing in the trace");
  add_integer(app, "--parallel", options.n_parallel, {1, 256}, "Requests that share a step");
  add_path(app, "--out", options.out,
           "Write the logits after each token of one request: raw float32 [tokens][vocabulary]");
}

void add_replay_cache_options(CLI::App& app, ReplayOptions& options) {
  CLI::Option* const cache = app.add_flag(
      "--cache", options.only_cache,
      "Without a model: what an expert memory would hit under each policy, or that of --cache-policy");
  app.add_option_function<std::string>(
         "--slots",
         [&options](const std::string& text) { options.cache.slots = parse_slots("--slots", text); },
         "Experts in memory, of all layers together: numbers, or shares of all")
      ->type_name("N|X%,...")
      ->default_str("12.5%,25%,50%,75%")
      ->needs(cache);
  add_integer(app, "--prompt-rows", options.cache.prompt_rows, {1, 65'536},
              "Tokens of a prompt that share a step; each other token has its own")
      ->needs(cache);
  add_path(app, "--csv", options.csv, "Write a line for each capacity and policy into a file")->needs(cache);
}

/// What --cache does not compute, it does not take; and the other way round, MODEL must be there.
void check_command_line(const CLI::App& app, const ReplayOptions& options) {
  constexpr std::array<std::string_view, 9> kOfCache = {"file",          "--cache",        "--slots",
                                                        "--prompt-rows", "--csv",          "--json",
                                                        "--request",     "--cache-policy", "--help"};
  if (!options.only_cache) {
    if (options.model.model.path.empty()) throw CLI::RequiredError("MODEL, or --cache");
    if (options.model.against_own && !options.model.model.trace.file.empty())
      throw CLI::ValidationError("--trace: it records one run, the replay, and needs --against none");
    return;
  }
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = (option->get_positional() ? "" : "--") + option->get_single_name();
    const bool is_taken = std::find(kOfCache.begin(), kOfCache.end(), name) != kOfCache.end();
    if (option->count() > 0 && !is_taken)
      throw CLI::ValidationError(name + ": --cache computes no model, and does not take it");
  }
}

}  // namespace

Command add_replay(CLI::App& program) {
  CLI::App* const app =
      program.add_subcommand("replay", "Force the choices of a trace on a model, or feed an expert memory");
  const auto options = std::make_shared<ReplayOptions>();
  add_path(*app, "file", options->model.trace, "File that --trace has written")
      ->required()
      ->type_name("TRACE");
  add_replay_model_options(*app, options->model);
  add_replay_cache_options(*app, *options);
  app->add_flag("--json", options->json, "Print one JSON object");
  app->callback([app, options] { check_command_line(*app, *options); });
  app->footer(
      "The tokens are the trace's. With the model that wrote it, the logits are the same to the bit; with "
      "another one\n"
      "that has as many experts, such as the same in fewer bits, the report tells what the routing has to do "
      "with the\n"
      "difference. docs/tracing.md tells more.\n\n"
      "Examples:\n"
      "  soli replay sea.sqlite model.gguf\n"
      "  soli replay sea.sqlite model-q4.gguf --weights router --json\n"
      "  soli replay sea.sqlite model.gguf --request 1 --against none --out logits.f32\n"
      "  soli replay sea.sqlite --cache --slots 12.5%,50%,96 --csv hits.csv");
  return {app, [options] {
            return options->only_cache ? run_cache_replay(*options) : run_model_replay(*options);
          }};
}

}  // namespace soli::cli
