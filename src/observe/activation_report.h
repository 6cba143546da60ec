#pragma once

// The activation report of one request [O2]. Everything in it is counted from recorded choices and from the
// sizes of tensors; the names are those of the field: see the definitions at each member.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "observe/activation_recorder.h"
#include "observe/expert_shares.h"

namespace soli {

struct TokenActivation {
  static constexpr int32_t kNotRecorded = -1;  // the token of a dense model, which makes no choices

  int64_t position = 0;
  int32_t token = 0;
  int64_t active_parameters = 0;  // A(t): what every token multiplies with, and the chosen experts' own
  double activation_ratio = 0;    // A(t) / N
  double effective_experts = 0;  // exp of the entropy of the normalised routing weights, mean over MoE layers
  double gate_entropy_bits = 0;  // entropy of the whole router distribution, mean over MoE layers
  int64_t touched_bytes = 0;     // of the weights that the token multiplied with
  int64_t flops = 0;             // 2 per active parameter, and attention: 2 per element of q.k and of p.v
};

struct Spread {
  double mean = 0;
  double min = 0;
  double max = 0;
  double deviation = 0;  // standard deviation, of these tokens and not of a population behind them
};

/// Figures over a set of tokens; all zero for none.
struct ActivationSummary {
  int64_t n_tokens = 0;
  Spread active_parameters;
  Spread activation_ratio;
  Spread effective_experts;
  Spread gate_entropy_bits;
  Spread touched_bytes;
  Spread flops;
};

struct PositionBin {
  int64_t first_position = 0;
  int64_t end_position = 0;  // exclusive
  ActivationSummary summary;
};

/// Figures of one MoE layer. r_e: calls of expert e / tokens.
struct LayerActivation {
  int64_t layer = 0;  // among all layers
  ExpertShares shares;
  std::optional<double> stability;  // mean Jaccard overlap of the expert sets of consecutive tokens
  std::optional<double>
      top1_change_rate;       // how often the expert with the largest weight changes between them
  double expected_union = 0;  // sum of 1 - (1 - r_e)^tokens: distinct experts if tokens chose independently
  double sharing_gain = 0;    // expected union / distinct experts; 0 without a call
};

/// The shares' figures stand beside the others.
nlohmann::ordered_json to_json(const LayerActivation& layer);

struct ActivationReport {
  std::string model;
  int64_t n_experts = 0;  // per MoE layer; 0: a dense model
  int64_t experts_per_token = 0;
  int64_t nominal_parameters = 0;
  PartSize always_active;

  int64_t n_incomplete = 0;             // tokens left out, since not every layer's choice is recorded
  int64_t n_dropped = 0;                // routes that the recorder overwrote
  std::vector<TokenActivation> tokens;  // by position
  ActivationSummary all;
  ActivationSummary prompt;
  ActivationSummary generated;
  std::vector<PositionBin> by_position;  // at most kPositionBins, of equal width up to rounding

  std::vector<LayerActivation> layers;  // the MoE layers
  std::optional<double> stability;      // mean over layers
  std::optional<double> top1_change_rate;
  int64_t distinct_pairs = 0;  // (layer, expert)
  double union_ratio = 0;      // distinct pairs / (MoE layers * experts)
  double expected_union = 0;   // sum over layers
  double sharing_gain = 0;     // expected union / distinct pairs
  int64_t union_bytes = 0;     // weights of all tokens, each distinct expert once

  static constexpr int64_t kPositionBins = 8;
  bool is_moe() const { return n_experts > 0; }
};

/// The report of one request. Positions below `n_prompt` are the prompt's. `n_processed` is the number of
/// positions that went through the model, for a dense model only, which makes no choices to count them by;
/// -1: n_prompt.
ActivationReport make_report(const RequestChoices& choices, const ModelSpec& spec,
                             const ParameterCounts& counts, int64_t n_prompt, int64_t n_processed = -1);

/// A table for a terminal of 100 columns. With `colour`, ANSI escapes mark headings, and layers that are
/// biased by the default verdict: coefficient of variation above 1, or more than 10 % of the experts never
/// called.
std::string render_text(const ActivationReport& report, bool colour = false);

nlohmann::ordered_json to_json(const ActivationReport& report);

}  // namespace soli
