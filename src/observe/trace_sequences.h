#pragma once

// A trace as sequences that a model can compute again.

#include <cstdint>
#include <string>
#include <vector>

#include "model/recorded_choices.h"
#include "model/spec.h"
#include "observe/trace_reader.h"

namespace soli {

/// The tokens of one request, from position 0 on, all of which are in the trace.
struct TraceSequence {
  uint64_t request = 0;
  std::vector<int32_t> tokens = {};
};

struct TraceSequences {
  std::vector<TraceSequence> sequences = {};  // by ascending request
  int64_t n_skipped = 0;                      // requests that are not whole, where these are left out

  int64_t n_tokens() const;
  /// Tokens of the longest one.
  int64_t longest() const;
};

/// Fails with kInvalidArgument where the trace is of another shape than the model: other layers with experts,
/// or another number of them. Both are named.
Status check_trace_fits(const TraceReader& reader, const ModelSpec& spec);

/// Those of the range's request, or of all; the range's positions do not matter. Every row is read, and its
/// choice checked, so that read_choices() will not meet anything new. Fails as check_trace_fits() and
/// for_each_row(), with kMalformed for a token that is not in the model's vocabulary or a weight below 0, and
/// with kInvalidArgument for a request of which a position is not there (unless `skips_incomplete`), and for
/// a trace without any whole request.
Result<TraceSequences> read_sequences(TraceReader& reader, const ModelSpec& spec, int64_t request,
                                      bool skips_incomplete);

/// What the tokens of a request chose, which read_sequences() has given. Fails as for_each_row().
Result<RecordedChoices> read_choices(TraceReader& reader, uint64_t request);

}  // namespace soli
