// soli bench: how fast a model reads prompts and generates on this machine.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/bench_measure.h"
#include "cli/bench_options.h"
#include "cli/bench_report.h"
#include "cli/bench_sweep.h"
#include "cli/bench_watching.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/session.h"
#include "io/file.h"
#include "io/file_writer.h"

namespace soli::cli {
namespace {

Result<int> bench_work(Session& session, BenchOptions& options) {
  SOLI_RETURN_IF_ERROR(load_for_bench(session, options));
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  SOLI_ASSIGN_OR_RETURN(const BenchFigures figures, measure_bench(session, options, interrupt));
  if (options.json) {
    print_json(to_json(session, options, figures));
  } else {
    print("{}", render_text(session, options, figures));
  }
  if (figures.void_reasons.empty()) return kExitDone;
  print_note("soli: the figures are void: {}\n", figures.void_reasons.front());
  return kExitError;
}

Result<int> bench_watching(Session& session, const BenchOptions& options) {
  SOLI_RETURN_IF_ERROR(load_for_watching(session, options));
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  SOLI_ASSIGN_OR_RETURN(const WatchingFigures figures, measure_watching(session, options, interrupt));
  if (options.json) {
    nlohmann::ordered_json json = setup_json(session, options);
    json["watching"] = to_json(figures);
    print_json(json);
  } else {
    print("{}{}", render_setup(session, options), render_text(figures));
  }
  return kExitDone;
}

Result<int> bench_sweep(BenchOptions options) {
  options.model.memory.force_tiers = true;
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  SOLI_RETURN_IF_ERROR(
      check_output_files(*session, {{"--svg", options.svg}}, {{"--replay", options.replay}}));
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  SOLI_ASSIGN_OR_RETURN(const SweepFigures figures, options.replay.empty()
                                                        ? sweep_model(*session, options, interrupt)
                                                        : sweep_trace(options));
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  if (options.json) {
    print_json(to_json(figures));
  } else {
    print("{}", render_text(figures));
  }
  if (options.svg.empty()) return kExitDone;
  const std::string svg = render_svg(plots_of(figures));
  SOLI_RETURN_IF_ERROR(write_file(options.svg, std::as_bytes(std::span(svg))));
  return kExitDone;
}

Result<int> bench_other(BenchOptions options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  Result<int> status = options.watching ? bench_watching(*session, options) : bench_work(*session, options);
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  return status;
}

Result<int> run_bench(const BenchOptions& options) {
  Result<int> status = options.sweep ? bench_sweep(options) : bench_other(options);
  if (!status && status.error().kind == ErrorKind::kCancelled) {
    print_note("soli: interrupted\n");
    return kExitInterrupted;
  }
  return status;
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* const app =
      program.add_subcommand("bench", "Measure how fast a model reads prompts and generates");
  const auto options = std::make_shared<BenchOptions>();
  add_bench_options(*app, *options);
  app->footer(
      "Prefill is the time from a prompt of random tokens to its first token; decode is the time of steps "
      "in\n"
      "which all sequences gain a token, after their prompts. Leave the machine alone while it runs.\n"
      "--probe voids a run, with exit status 1, whose shares mean nothing: a figure of the machine changed "
      "by\n"
      "more than a tenth or is far below what such a machine has shown, or work was faster than the "
      "machine.\n\n"
      "Examples:\n"
      "  soli bench model.gguf\n"
      "  soli bench model.gguf --prompt 512 --sequences 1,8,32 --generate 64 -t 2 --repetitions 5 --json\n"
      "  soli bench model.gguf --prompt none --sequences 1\n"
      "  soli bench model.gguf --probe\n"
      "  soli bench model.gguf --watching\n"
      "  soli bench model.gguf --watching --watcher meter --pairs 250\n"
      "  soli bench model.gguf --memory-sweep --generate 32 --svg sweep.svg");
  return {app, [options] { return run_bench(*options); }};
}

}  // namespace soli::cli
