// soli inspect: what a model file holds, or what this machine can do.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/machine_report.h"
#include "cli/model_options.h"
#include "cli/model_summary.h"
#include "cli/output.h"
#include "model/synth.h"

namespace soli::cli {
namespace {

struct InspectOptions {
  std::string path;
  bool json = false;
  bool tensors = false;
  bool machine = false;
  std::string shape;  // of a published model
  int64_t n_threads = 0;
  bool pin = false;
  double seconds = 1;  // per figure
};

Result<int> run_inspect_machine(const InspectOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::string isa, requested_isa());
  SOLI_ASSIGN_OR_RETURN(
      const std::unique_ptr<Runtime> runtime,
      Runtime::create({.n_threads = static_cast<int>(options.n_threads), .isa = isa, .pin = options.pin}));
  SOLI_ASSIGN_OR_RETURN(const MachineInfo machine, describe_machine(*runtime));
  SOLI_ASSIGN_OR_RETURN(const MachineCeilings ceilings, measure_machine(*runtime, machine, options.seconds));
  if (options.json) {
    print_json(to_json(machine, ceilings));
  } else {
    print("{}", render_text(machine, ceilings));
  }
  return kExitDone;
}

/// An unknown name is a mistake on the command line.
Result<int> run_inspect_shape(const InspectOptions& options) {
  const Result<ShapeSummary> summary = ShapeSummary::of(options.shape);
  if (!summary) {
    print_error(summary.error());
    return kExitUsage;
  }
  if (options.json) {
    print_json(to_json(*summary));
  } else {
    print("{}", render_text(*summary));
  }
  return kExitDone;
}

Result<int> run_inspect(const InspectOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::open(options.path));
  SOLI_ASSIGN_OR_RETURN(const std::string isa, requested_isa());
  // One thread: nothing is computed. The runtime says which weight types have kernels.
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime,
                        Runtime::create({.n_threads = 1, .isa = isa}));
  const ModelSummary summary = summarise(file, *runtime);
  if (options.json) {
    print_json(to_json(summary, options.tensors));
  } else {
    print("{}", render_text(summary));
    if (options.tensors) print("\n{}", render_tensors(file));
  }
  return kExitDone;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  CLI::App* const app =
      program.add_subcommand("inspect", "Show what a model file holds, or what this machine can do");
  const auto options = std::make_shared<InspectOptions>();
  CLI::Option* const model = add_model_path(*app, options->path)->required(false);
  CLI::Option* const machine =
      app->add_flag("--machine", options->machine, "Show and measure this machine instead");
  machine->excludes(model);
  app->add_flag("--json", options->json, "Print one JSON object");
  app->add_flag("--tensors", options->tensors, "List every tensor")->needs(model);
  add_integer(*app, "-t,--threads", options->n_threads, {0, ThreadTeam::kMaxThreads},
              "Threads that are measured together; 0: one per core that this process may use")
      ->needs(machine);
  app->add_flag("--pin", options->pin, "Keep each thread on a processor of its own")->needs(machine);
  add_number(*app, "--seconds", options->seconds, {0.001, 60}, "How long each of six figures is measured")
      ->needs(machine);
  CLI::Option* const shape = app->add_option(
      "--shape", options->shape, "Show the parameters of a published model, from its shape alone");
  shape->type_name(fmt::format("{{{}}}", fmt::join(synth_preset_names(), ",")))
      ->excludes(model)
      ->excludes(machine);
  app->callback([model, machine, shape] {
    if (model->empty() && machine->empty() && shape->empty())
      throw CLI::RequiredError("MODEL, --machine or --shape NAME");
  });
  app->footer(
      "No weight is read, so that files of any size, and of weight types that soli does not run, can be "
      "inspected.\n\n"
      "Examples:\n"
      "  soli inspect models/demo/soli-demo-16x2-q8_0.gguf\n"
      "  soli inspect model-00001-of-00003.gguf --json --tensors\n"
      "  soli inspect --shape deepseek-v3\n"
      "  soli inspect --machine");
  return {app, [options] {
            if (options->machine) return run_inspect_machine(*options);
            return options->shape.empty() ? run_inspect(*options) : run_inspect_shape(*options);
          }};
}

}  // namespace soli::cli
