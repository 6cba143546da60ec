#pragma once

#include <cstdint>

#include "experts/access_trace.h"
#include "observe/trace_reader.h"

namespace soli {

/// The turns that a trace's tokens give an expert memory: request by request, and within one step by step, in
/// each of which every layer asks for its distinct experts once. A trace does not say which rows shared a
/// step: here, up to `prompt_rows` of a prompt's tokens do, and every other token has a step of its own, so
/// that one request alone is as the run had it that read prompts in chunks of so many. Tokens that came from
/// a prefix cache asked for nothing. Beyond `max_bytes` of turns, they are dropped and counted.
/// Fails as TraceReader::requests() and for_each_row().
Result<AccessTrace> accesses_of(TraceReader& reader, int64_t request, int64_t prompt_rows,
                                int64_t max_bytes = AccessTrace::kMaxBytes);

}  // namespace soli
