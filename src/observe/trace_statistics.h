#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "observe/activation_report.h"
#include "observe/trace_reader.h"

namespace soli {

/// Figures of one layer of a trace, over all its tokens.
struct TraceLayerFigures {
  LayerActivation activation;    // stability is of consecutive positions of a request
  double effective_experts = 0;  // exp of the entropy of a token's normalised weights, mean over tokens
  /// With logits: the entropy of their softmax in bits, mean over tokens that have them.
  std::optional<double> router_entropy_bits;
  std::vector<int64_t> calls;  // [experts]
};

struct TraceFigures {
  int64_t n_requests = 0;  // that have begun; some may have no tokens
  int64_t n_tokens = 0;
  int64_t n_cached = 0;    // of those, not computed for their request
  int64_t n_uncalled = 0;  // of those, without an expert in some layer
  int64_t n_calls = 0;
  std::vector<TraceLayerFigures> layers;
};

/// Counts everything in one pass. Fails as TraceReader does.
Result<TraceFigures> count_trace(TraceReader& reader);

std::string render_text(const TraceInfo& info, const TraceFigures& figures);
nlohmann::ordered_json to_json(const TraceInfo& info, const TraceFigures& figures);

/// What a trace is, without its tokens: how both of the above begin.
std::string render_text(const TraceInfo& info);

}  // namespace soli
