#pragma once

#include <cstdint>
#include <string>

#include "observe/trace_writer.h"

namespace CLI {
class App;
}

namespace soli::cli {

/// Whether and how a command that runs a model records the router's choices.
struct TraceOptions {
  std::string file;  // to write, or "": none
  bool overwrite = false;
  TraceSampling sampling;
  bool logits = false;
  int64_t buffer_bytes = TraceWriter::kDefaultBufferBytes;
};

/// Adds --trace and the options that need it.
void add_trace_options(CLI::App& app, TraceOptions& options);

}  // namespace soli::cli
