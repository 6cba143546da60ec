// soli pack: a model file whose experts are read at once, and used as they lie.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/units.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/workbench.h"
#include "model/pack.h"
#include "model/packed_loader.h"

namespace soli::cli {
namespace {

struct PackCommandOptions {
  std::string model;
  PackOptions pack;
  bool verify = false;
  int64_t n_threads = 0;
};

/// "64 experts in each of 16 layers"
std::string describe_experts(const ModelSpec& spec) {
  return fmt::format("{} experts in each of {} layers", spec.router.n_experts, spec.n_moe_layers());
}

Result<std::unique_ptr<Runtime>> make_runtime(const PackCommandOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::string isa, requested_isa());
  return Runtime::create({.n_threads = static_cast<int>(options.n_threads), .isa = isa});
}

Result<int> run_pack(const PackCommandOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, make_runtime(options));
  SOLI_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::open(options.model));
  const Stopwatch watch;
  Result<PackedFiles> files;
  {
    // A half file may be huge: Ctrl-C removes it.
    const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
    ProgressLine progress("packing");
    files = pack_model(file, options.pack, *runtime, [&](int64_t done, int64_t total) {
      progress.show(done, total);
      return !interrupt.interrupted();
    });
  }
  if (!files && files.error().kind == ErrorKind::kCancelled) {
    print_note("soli: interrupted: {} is not written\n", options.pack.out);
    return kExitInterrupted;
  }
  SOLI_RETURN_IF_ERROR(files);
  print("{}: {}, {}{} in {:.1f} s\n", files->paths.front(), describe_experts(file.spec()),
        format_bytes(files->bytes),
        files->paths.size() > 1 ? fmt::format(" in {} files", files->paths.size()) : "", watch.seconds());
  return kExitDone;
}

Result<int> run_verify(const PackCommandOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, make_runtime(options));
  SOLI_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::open(options.model));
  if (file.packed() == nullptr)
    return fail(ErrorKind::kInvalidArgument, "{}: it is not packed, and has no checksums", options.model);
  const Stopwatch watch;
  int64_t n_bytes = 0;
  std::vector<std::string> damage;
  {
    ProgressLine progress("checking");
    SOLI_ASSIGN_OR_RETURN(damage, find_damage(file, *runtime, [&](int64_t done, int64_t total) {
                            n_bytes = total;
                            progress.show(done, total);
                          }));
  }
  for (const std::string& message : damage) print("{}\n", message);
  if (!damage.empty()) {
    const ModelSpec& spec = file.spec();
    return fail(ErrorKind::kMalformed, "{}: damaged: {} of {} experts", options.model, damage.size(),
                spec.router.n_experts * spec.n_moe_layers());
  }
  print("{}: {} are as they were packed, {} in {:.1f} s\n", options.model, describe_experts(file.spec()),
        format_bytes(n_bytes), watch.seconds());
  return kExitDone;
}

}  // namespace

Command add_pack(CLI::App& program) {
  CLI::App* const app =
      program.add_subcommand("pack", "Write a model file whose experts are read at once, ready to multiply");
  const auto options = std::make_shared<PackCommandOptions>();
  add_model_path(*app, options->model);
  CLI::Option* const out =
      add_path(*app, "out", options->pack.out, "The file to write, or with --pack-dir the name of the set")
          ->type_name("OUT");
  CLI::Option* const folders = app->add_option_function<std::string>(
      "--pack-dir",
      [options](const std::string& folder) {
        if (folder.empty()) throw CLI::ValidationError("--pack-dir", "an empty path is no folder");
        options->pack.folders.push_back(folder);
      },
      "A folder for a part of the experts, best on a drive of its own; may be given several times");
  folders->type_name("DIR")->expected(1)->take_all()->trigger_on_parse();
  CLI::Option* const verify = app->add_flag(
      "--verify", options->verify, "Check every expert of a packed MODEL by its checksum, and write nothing");
  verify->excludes(out)->excludes(folders);
  add_integer(*app, "-t,--threads", options->n_threads, {0, ThreadTeam::kMaxThreads},
              "Threads; 0: one per core");
  app->callback([out, verify] {
    if (out->empty() && verify->empty()) throw CLI::RequiredError("OUT or --verify");
  });
  app->footer(
      "A packed model gives the same results bit by bit and takes about the same room. It loads without "
      "being laid out anew, and every expert is one aligned read. Only soli reads it. The bytes depend on "
      "the "
      "model alone.\n\n"
      "With --pack-dir the experts of each layer are dealt out over files in the given folders, to which "
      "links "
      "stand beside OUT-00001-of-0000N.gguf: give that one to the other commands.\n\n"
      "Examples:\n"
      "  soli pack olmoe.gguf olmoe-packed.gguf\n"
      "  soli pack big-00001-of-00009.gguf big-packed --pack-dir /nvme0/soli --pack-dir /nvme1/soli\n"
      "  soli pack --verify olmoe-packed.gguf");
  return {app, [options] { return options->verify ? run_verify(*options) : run_pack(*options); }};
}

}  // namespace soli::cli
