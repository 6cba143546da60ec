#include "cli/model_options.h"

#include <cstdlib>

#include "cli/flags.h"
#include "kernels/kernel_table.h"

namespace soli::cli {

CLI::Option* add_model_path(CLI::App& app, std::string& path) {
  return add_path(app, "model", path, "GGUF file, or any shard of a split set")
      ->required()
      ->type_name("MODEL");
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  add_model_path(app, options.path);
  add_integer(app, "-t,--threads", options.n_threads, {0, ThreadTeam::kMaxThreads},
              "Threads; 0: one per core that this process may use");
  app.add_flag("--pin", options.pin, "Keep each thread on a processor of its own");
  add_integer(app, "-c,--ctx,--ctx-size", options.engine.context_length, {0, kMaxContextLength},
              "Positions of a sequence; 0: what the model was trained for");
  add_integer(
      app, "-b,--batch-size", options.engine.chunk_rows, {1, 65'536},
      "Rows of one step: long prompts are cut into chunks of it; where experts are read from the disk, "
      "once per chunk, up to 4096 by default")
      ->each([&options](const std::string&) { options.chunk_rows_given = true; });
  add_choice<ActivationPrecision>(
      app, "--act", options.engine.activations,
      {{"f32", ActivationPrecision::kF32}, {"q8", ActivationPrecision::kQ8}},
      "Activations that meet quantised weights: 32-bit floats, or 8-bit integers for "
      "the weight types that have integer kernels");
  add_choice<KvType>(app, "--kv", options.engine.kv_type, {{"f32", KvType::kF32}, {"f16", KvType::kF16}},
                     "Precision of stored keys and values");
  add_policy_options(app, options.policy);
  add_memory_options(app, options.memory);
  add_trace_options(app, options.trace);
}

Result<std::string> requested_isa() {
  const char* const isa = std::getenv("SOLI_ISA");
  if (isa == nullptr) return "";
  if (const auto table = kernels::select_kernels(isa); !table) return in_context("SOLI_ISA", table.error());
  return isa;
}

const char* name_of(KvType type) { return type == KvType::kF32 ? "f32" : "f16"; }

const char* name_of(ActivationPrecision precision) {
  return precision == ActivationPrecision::kF32 ? "f32" : "q8";
}

}  // namespace soli::cli
