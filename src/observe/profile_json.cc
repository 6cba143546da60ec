#include <nlohmann/json.hpp>

#include "observe/profile_report.h"

namespace soli {
namespace {

using Json = nlohmann::ordered_json;

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json interval_json(const std::optional<Interval>& interval) {
  return interval ? Json{interval->low, interval->high} : Json();
}

Json test_json(const std::optional<PermutationTest>& test) {
  if (!test) return {};
  return {{"sample", test->observed}, {"permuted", test->permuted}, {"p", test->p}};
}

Json batches_json(const std::vector<BatchFigures>& batches) {
  Json json = Json::array();
  for (const BatchFigures& batch : batches) {
    json.push_back({{"tokens", batch.batch_tokens},
                    {"batches", batch.n_batches},
                    {"distinct_experts", batch.distinct_experts},
                    {"expected_union", batch.expected_union},
                    {"sharing_gain", batch.sharing_gain}});
  }
  return json;
}

Json positions_json(const std::vector<PositionFigures>& positions) {
  Json json = Json::array();
  for (const PositionFigures& position : positions) {
    json.push_back({{"first_position", position.first_position},
                    {"tokens", position.n_tokens},
                    {"mean_k", position.mean_k},
                    {"effective_experts", position.effective_experts},
                    {"gate_entropy_bits", position.gate_entropy_bits}});
  }
  return json;
}

/// What a layer has and a mean over layers has not.
void add_layer_members(const RoutingFigures& figures, Json& json) {
  json["calls"] = figures.calls;
  json["never_experts"] = figures.never_experts;
  Json pairs = Json::array();
  for (const ExpertPair& pair : figures.pairs)
    pairs.push_back({{"experts", {pair.a, pair.b}}, {"tokens", pair.n_tokens}, {"lift", pair.lift}});
  json["coactivation"] = std::move(pairs);
  json["coactivation_clusters"] = figures.clusters;
  Json specialists = Json::array();
  for (const Specialist& specialist : figures.specialists) {
    specialists.push_back({{"expert", specialist.expert},
                           {"domain", specialist.domain},
                           {"lift", specialist.lift},
                           {"excess_deviations", specialist.excess_deviations}});
  }
  json["specialists"] = std::move(specialists);
}

Json figures_json(const RoutingFigures& figures) {
  Json json;
  if (figures.layer >= 0) json["layer"] = figures.layer;
  json["tokens"] = figures.n_tokens;
  json["calls_total"] = figures.n_calls;
  json["mean_k"] = figures.mean_k;
  json["k_spread"] = figures.k_deviation;
  json["effective_experts"] = figures.effective_experts;
  json["effective_experts_spread"] = figures.effective_deviation;
  json["gate_entropy_bits"] = figures.gate_entropy_bits;
  json["gate_entropy_spread"] = figures.gate_entropy_deviation;
  json["routing_entropy_bits"] = figures.routing_entropy_bits;
  json["routing_entropy_normalised"] = figures.routing_entropy_normalised;
  json["hottest"] = {
      {"layer", figures.hottest_layer}, {"expert", figures.hottest_expert}, {"share", figures.hottest_share}};
  json["coldest"] = {
      {"layer", figures.coldest_layer}, {"expert", figures.coldest_expert}, {"share", figures.coldest_share}};
  json["share_variation"] = figures.variation;
  json["share_variation_interval"] = interval_json(figures.resampled.variation);
  json["share_max_over_mean"] = figures.max_over_mean;
  json["never_called"] = figures.never_called;
  json["never_called_interval"] = interval_json(figures.resampled.never_called);
  json["distinct_experts"] = figures.distinct_experts;
  json["stability"] = optional_number(figures.stability);
  json["stability_test"] = test_json(figures.resampled.stability);
  json["top1_change_rate"] = optional_number(figures.top1_change_rate);
  json["margin"] = optional_number(figures.margin);
  json["information_bits"] = optional_number(figures.information_bits);
  json["information_test"] = test_json(figures.resampled.information);
  json["verdict"] = name_of(figures.verdict);
  json["verdict_is_certain"] = figures.is_certain;
  json["drift_bits"] = optional_number(figures.drift_bits);
  json["drift_chance_bits"] = optional_number(figures.drift_chance_bits);
  json["batches"] = batches_json(figures.batches);
  json["positions"] = positions_json(figures.positions);
  if (figures.layer >= 0) add_layer_members(figures, json);
  return json;
}

Json target_json(const TargetReport& target) {
  Json layers = Json::array();
  for (const RoutingFigures& layer : target.layers) layers.push_back(figures_json(layer));
  return {{"name", target.name},
          {"windows", target.n_windows},
          {"sampled_tokens", target.n_sampled_tokens},
          {"total", figures_json(target.total)},
          {"layers", std::move(layers)}};
}

}  // namespace

Json to_json(const ProfileReport& report, const ProfileSource& source) {
  Json domains = Json::array();
  for (const TargetReport& domain : report.domains) domains.push_back(target_json(domain));
  return {{"path", source.model_file},
          {"data", source.data},
          {"policy", Json::parse(source.policy)},
          {"complete", source.is_complete},
          {"format", "soli-profile-report-1"},
          {"model", report.model},
          {"experts", report.n_experts},
          {"experts_per_token", report.experts_per_token},
          {"window", report.window},
          {"seed", report.seed},
          {"replicates", kProfileReplicates},
          {"cluster_lift", kClusterLift},
          {"against", report.against.empty() ? Json() : Json(report.against)},
          {"domains", std::move(domains)},
          {"all", target_json(report.all)}};
}

}  // namespace soli
