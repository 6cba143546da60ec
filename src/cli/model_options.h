#pragma once

#include <cstdint>
#include <string>

#include "cli/memory_options.h"
#include "cli/policy_options.h"
#include "cli/trace_options.h"
#include "engine/engine.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace soli::cli {

/// What every command that runs a model lets people choose.
struct ModelOptions {
  std::string path;
  int64_t n_threads = 0;  // 0: one per usable core
  bool pin = false;       // threads to processors
  MemoryOptions memory;
  PolicyOptions policy;
  TraceOptions trace;
  EngineOptions engine;           // precisions, context length, rows of a step
  bool chunk_rows_given = false;  // or left to the plan of the memory
};

/// Adds the positional MODEL, required.
CLI::Option* add_model_path(CLI::App& app, std::string& path);
/// Adds MODEL, -t, --pin, -c, -b, --act, --kv, and the options of the routing policy, of the memory and of
/// the trace.
void add_model_options(CLI::App& app, ModelOptions& options);

/// Value of the environment variable SOLI_ISA, or "". Fails with kInvalidArgument where this machine does not
/// have it.
Result<std::string> requested_isa();

const char* name_of(KvType type);
const char* name_of(ActivationPrecision precision);

}  // namespace soli::cli
