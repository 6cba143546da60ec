#pragma once

#include <cstdint>
#include <string>

#include "observe/trace_reader.h"

namespace soli {

/// The files that a trace can be made into; docs/tracing.md describes each.
enum class TraceFormat {
  kCsv,       // a line per call of an expert
  kNpz,       // NumPy arrays
  kMegatron,  // JSON lines, as Megatron-LM traces its routers
  kSgLang,    // JSON lines, the experts in Base64, as SGLang answers them
};

/// Writes the rows of `range` to `path`, through a new file beside it. Memory does not grow with the trace.
/// Fails as TraceReader does, or with kNotFound or kIo of `path`.
Status export_trace(TraceReader& reader, const TraceRange& range, TraceFormat format,
                    const std::string& path);

}  // namespace soli
