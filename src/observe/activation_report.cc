#include "observe/activation_report.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"
#include "observe/expert_shares.h"
#include "observe/layer_statistics.h"

namespace soli {
namespace {

/// Multiplications and additions of attention for one row: q.k and p.v with every position that it sees.
int64_t attention_flops(const ModelSpec& spec, int64_t position) {
  return spec.keys_seen(position) * spec.n_heads * 2 * (spec.head_dim + spec.value_dim);
}

/// What a token costs, its experts not yet counted.
TokenActivation token_without_experts(const ModelSpec& spec, const ParameterCounts& counts, int64_t position,
                                      int32_t token) {
  TokenActivation result;
  result.position = position;
  result.token = token;
  result.active_parameters = counts.always_active.parameters;
  result.touched_bytes = counts.always_active.bytes;
  result.flops = attention_flops(spec, position);
  return result;
}

/// What follows from the active parameters once they are all counted.
void finish_token(const ParameterCounts& counts, TokenActivation& token) {
  token.activation_ratio =
      static_cast<double>(token.active_parameters) / static_cast<double>(counts.nominal_total.parameters);
  token.flops += 2 * token.active_parameters;
}

/// `routes` are those of one token, one per MoE layer.
TokenActivation moe_token(const RequestChoices& choices, std::span<const RecordedRoute> routes,
                          const ModelSpec& spec, const ParameterCounts& counts) {
  TokenActivation token = token_without_experts(spec, counts, routes[0].position, routes[0].token);
  const auto n_layers = static_cast<double>(routes.size());
  for (const RecordedRoute& route : routes) {
    const std::span<const ExpertCall> calls = choices.calls_of(route);
    for (const ExpertCall& call : calls) {
      const PartSize& expert =
          counts.expert[static_cast<size_t>(route.layer)][static_cast<size_t>(call.expert)];
      token.active_parameters += expert.parameters;
      token.touched_bytes += expert.bytes;
    }
    token.effective_experts += effective_experts(calls) / n_layers;
    token.gate_entropy_bits += static_cast<double>(route.gate_entropy_bits) / n_layers;
  }
  finish_token(counts, token);
  return token;
}

/// Adds the tokens of a request to a report, and all that is told layer by layer.
void add_moe_tokens(const RequestChoices& choices, const ModelSpec& spec, const ParameterCounts& counts,
                    ActivationReport& report) {
  std::vector<LayerStatistics> layers;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) layers.emplace_back(layer, spec.router.n_experts);
  }
  const std::span<const RecordedRoute> all = choices.routes;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].position == all[begin].position) ++end;
    const std::span<const RecordedRoute> routes = all.subspan(begin, end - begin);
    if (routes.size() != layers.size()) {
      ++report.n_incomplete;
      continue;
    }
    for (size_t i = 0; i < routes.size(); ++i) {
      SOLI_CHECK(spec.is_moe_layer(routes[i].layer) && routes[i].layer < spec.n_layers);
      layers[i].add(routes[i].position, choices.calls_of(routes[i]));
    }
    report.tokens.push_back(moe_token(choices, routes, spec, counts));
  }
  for (const LayerStatistics& layer : layers) {
    report.layers.push_back(layer.result());
    const auto& experts = counts.expert[static_cast<size_t>(report.layers.back().layer)];
    for (size_t e = 0; e < experts.size(); ++e) {
      if (layer.calls()[e] > 0) report.union_bytes += experts[e].bytes;
    }
  }
}

void add_dense_tokens(const ModelSpec& spec, const ParameterCounts& counts, int64_t n_tokens,
                      ActivationReport& report) {
  for (int64_t position = 0; position < n_tokens; ++position) {
    report.tokens.push_back(token_without_experts(spec, counts, position, TokenActivation::kNotRecorded));
    finish_token(counts, report.tokens.back());
  }
}

template <typename Member>
Spread spread_of(std::span<const TokenActivation> tokens, Member member) {
  const auto value = [&](const TokenActivation& token) { return static_cast<double>(token.*member); };
  const auto n = static_cast<double>(tokens.size());
  Spread spread;
  spread.min = spread.max = value(tokens[0]);
  for (const TokenActivation& token : tokens) {
    spread.mean += value(token);
    spread.min = std::min(spread.min, value(token));
    spread.max = std::max(spread.max, value(token));
  }
  // The mean of equal values is that value, and their deviation 0, whatever the rounding of the sum.
  if (spread.min == spread.max) {
    spread.mean = spread.min;
    return spread;
  }
  spread.mean /= n;
  double variance = 0;
  for (const TokenActivation& token : tokens) {
    variance += (value(token) - spread.mean) * (value(token) - spread.mean) / n;
  }
  spread.deviation = std::sqrt(variance);
  return spread;
}

ActivationSummary summarise(std::span<const TokenActivation> tokens) {
  ActivationSummary summary;
  if (tokens.empty()) return summary;
  summary.n_tokens = static_cast<int64_t>(tokens.size());
  summary.active_parameters = spread_of(tokens, &TokenActivation::active_parameters);
  summary.activation_ratio = spread_of(tokens, &TokenActivation::activation_ratio);
  summary.effective_experts = spread_of(tokens, &TokenActivation::effective_experts);
  summary.gate_entropy_bits = spread_of(tokens, &TokenActivation::gate_entropy_bits);
  summary.touched_bytes = spread_of(tokens, &TokenActivation::touched_bytes);
  summary.flops = spread_of(tokens, &TokenActivation::flops);
  return summary;
}

/// The tokens with positions in [first, end), of tokens in ascending order.
std::span<const TokenActivation> tokens_within(std::span<const TokenActivation> tokens, int64_t first,
                                               int64_t end) {
  const auto begin = std::ranges::lower_bound(tokens, first, {}, &TokenActivation::position);
  return {begin, std::ranges::lower_bound(begin, tokens.end(), end, {}, &TokenActivation::position)};
}

void add_summaries(int64_t n_prompt, ActivationReport& report) {
  const std::span<const TokenActivation> tokens = report.tokens;
  if (tokens.empty()) return;
  const int64_t first = tokens.front().position;
  const int64_t n_positions = tokens.back().position + 1 - first;
  report.all = summarise(tokens);
  report.prompt = summarise(tokens_within(tokens, first, n_prompt));
  report.generated = summarise(tokens_within(tokens, std::max(first, n_prompt), first + n_positions));
  const int64_t n_bins = std::min(n_positions, ActivationReport::kPositionBins);
  for (int64_t bin = 0; bin < n_bins; ++bin) {
    const int64_t begin = first + n_positions * bin / n_bins;
    const int64_t end = first + n_positions * (bin + 1) / n_bins;
    report.by_position.push_back({begin, end, summarise(tokens_within(tokens, begin, end))});
  }
}

std::optional<double> mean_over_layers(const std::vector<LayerActivation>& layers,
                                       std::optional<double> LayerActivation::*member) {
  double sum = 0;
  for (const LayerActivation& layer : layers) {
    if (!(layer.*member)) return std::nullopt;
    sum += *(layer.*member);
  }
  if (layers.empty()) return std::nullopt;
  return sum / static_cast<double>(layers.size());
}

void add_totals(const ModelSpec& spec, ActivationReport& report) {
  report.stability = mean_over_layers(report.layers, &LayerActivation::stability);
  report.top1_change_rate = mean_over_layers(report.layers, &LayerActivation::top1_change_rate);
  for (const LayerActivation& layer : report.layers) {
    report.distinct_pairs += layer.shares.distinct;
    report.expected_union += layer.expected_union;
  }
  if (report.distinct_pairs == 0) return;
  const int64_t n_pairs = spec.n_moe_layers() * spec.router.n_experts;
  report.union_ratio = static_cast<double>(report.distinct_pairs) / static_cast<double>(n_pairs);
  report.sharing_gain = report.expected_union / static_cast<double>(report.distinct_pairs);
}

}  // namespace

ActivationReport make_report(const RequestChoices& choices, const ModelSpec& spec,
                             const ParameterCounts& counts, int64_t n_prompt, int64_t n_processed) {
  ActivationReport report;
  report.model = printable(spec.name.empty() ? spec.architecture : spec.name);
  report.n_experts = spec.router.n_experts;
  report.experts_per_token = spec.router.experts_per_token;
  report.nominal_parameters = counts.nominal_total.parameters;
  report.always_active = counts.always_active;
  report.n_dropped = choices.n_dropped;
  if (spec.is_moe()) {
    add_moe_tokens(choices, spec, counts, report);
  } else {
    add_dense_tokens(spec, counts, n_processed < 0 ? n_prompt : n_processed, report);
  }
  if (!report.tokens.empty()) report.union_bytes += counts.always_active.bytes;
  add_summaries(n_prompt, report);
  add_totals(spec, report);
  return report;
}

}  // namespace soli
