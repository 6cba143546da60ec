#include <nlohmann/json.hpp>

#include "observe/activation_report.h"

namespace soli {
namespace {

using Json = nlohmann::ordered_json;

Json spread_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"min", spread.min}, {"max", spread.max}, {"spread", spread.deviation}};
}

Json summary_json(const ActivationSummary& summary) {
  return {{"n_tokens", summary.n_tokens},
          {"active_parameters", spread_json(summary.active_parameters)},
          {"activation_ratio", spread_json(summary.activation_ratio)},
          {"effective_experts", spread_json(summary.effective_experts)},
          {"gate_entropy_bits", spread_json(summary.gate_entropy_bits)},
          {"touched_bytes", spread_json(summary.touched_bytes)},
          {"flops", spread_json(summary.flops)}};
}

/// null where there are no two consecutive tokens to compare.
Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json token_json(const TokenActivation& token) {
  return {{"position", token.position},
          {"token", token.token == TokenActivation::kNotRecorded ? Json(nullptr) : Json(token.token)},
          {"active_parameters", token.active_parameters},
          {"activation_ratio", token.activation_ratio},
          {"effective_experts", token.effective_experts},
          {"gate_entropy_bits", token.gate_entropy_bits},
          {"touched_bytes", token.touched_bytes},
          {"flops", token.flops}};
}

template <typename T, typename Convert>
Json array_json(const std::vector<T>& values, Convert convert) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(convert(value));
  return array;
}

Json bin_json(const PositionBin& bin) {
  Json json = {{"first_position", bin.first_position}, {"end_position", bin.end_position}};
  json.update(summary_json(bin.summary));
  return json;
}

}  // namespace

Json to_json(const LayerActivation& layer) {
  const ExpertShares& shares = layer.shares;
  return {{"layer", layer.layer},
          {"n_calls", shares.n_calls},
          {"hottest_expert", shares.hottest_expert},
          {"hottest_share", shares.hottest_share},
          {"coldest_expert", shares.coldest_expert},
          {"coldest_share", shares.coldest_share},
          {"routing_entropy_bits", shares.entropy_bits},
          {"routing_entropy_normalised", shares.entropy_normalised},
          {"share_variation", shares.variation},
          {"share_max_over_mean", shares.max_over_mean},
          {"never_called", shares.never_called},
          {"stability", optional_json(layer.stability)},
          {"top1_change_rate", optional_json(layer.top1_change_rate)},
          {"distinct_experts", shares.distinct},
          {"expected_union", layer.expected_union},
          {"sharing_gain", layer.sharing_gain}};
}

Json to_json(const ActivationReport& report) {
  return {{"model", report.model},
          {"n_experts", report.n_experts},
          {"experts_per_token", report.experts_per_token},
          {"nominal_parameters", report.nominal_parameters},
          {"always_active_parameters", report.always_active.parameters},
          {"always_active_bytes", report.always_active.bytes},
          {"n_incomplete_tokens", report.n_incomplete},
          {"n_dropped_routes", report.n_dropped},
          {"all", summary_json(report.all)},
          {"prompt", summary_json(report.prompt)},
          {"generated", summary_json(report.generated)},
          {"by_position", array_json(report.by_position, bin_json)},
          {"stability", optional_json(report.stability)},
          {"top1_change_rate", optional_json(report.top1_change_rate)},
          {"distinct_pairs", report.distinct_pairs},
          {"union_ratio", report.union_ratio},
          {"expected_union", report.expected_union},
          {"sharing_gain", report.sharing_gain},
          {"union_bytes", report.union_bytes},
          {"layers", array_json(report.layers, [](const LayerActivation& layer) { return to_json(layer); })},
          {"tokens", array_json(report.tokens, token_json)}};
}

}  // namespace soli
