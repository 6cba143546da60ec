#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "observe/diagnosis_report.h"

namespace soli {
namespace {

using DiagnosisJson = nlohmann::ordered_json;

/// With as many digits as tell the float apart.
double short_double(float value) { return std::strtod(fmt::to_string(value).c_str(), nullptr); }

DiagnosisJson expert_or_null(int32_t expert) { return expert < 0 ? DiagnosisJson() : DiagnosisJson(expert); }

DiagnosisJson call_json(const DiagnosisReport& report, int64_t number) {
  const FfnCall& call = report.tokens.calls[static_cast<size_t>(number)];
  DiagnosisJson says = DiagnosisJson::array();
  for (const SaidToken& said : report.tokens.said_by(number)) {
    says.push_back({{"token", said.token},
                    {"text", report.names.at(said.token)},
                    {"probability", short_double(said.probability)}});
  }
  return {{"kind", name_of(call.kind)},
          {"expert", expert_or_null(call.expert)},
          {"weight", short_double(call.weight)},
          {"residual_ratio", short_double(call.residual_ratio)},
          {"active_share", short_double(call.active_share)},
          {"says", std::move(says)}};
}

DiagnosisJson diagnosed_token_json(const DiagnosisReport& report, int64_t position) {
  DiagnosisJson layers = DiagnosisJson::array();
  for (int64_t layer = 0; layer < report.n_layers(); ++layer) {
    const LayerPath& path = report.tokens.path(position, layer);
    DiagnosisJson calls = DiagnosisJson::array();
    for (int64_t call = path.first_call; call < path.first_call + path.n_calls; ++call)
      calls.push_back(call_json(report, call));
    layers.push_back({{"layer", layer},
                      {"residual_norm", short_double(path.residual_norm)},
                      {"added_ratio", short_double(path.added_ratio)},
                      {"calls", std::move(calls)}});
  }
  return {{"position", position},
          {"token", report.tokens.tokens[static_cast<size_t>(position)]},
          {"text", report.texts[static_cast<size_t>(position)]},
          {"kind", position < report.n_prompt ? "prompt" : "generated"},
          {"segment", report.segment_of(position)},
          {"layers", std::move(layers)}};
}

DiagnosisJson diagnosis_head_json(const DiagnosisReport& report) {
  DiagnosisJson moe_layers = DiagnosisJson::array();
  for (size_t layer = 0; layer < report.has_experts.size(); ++layer) {
    if (report.has_experts[layer]) moe_layers.push_back(layer);
  }
  return {{"model", report.model},
          {"layers", report.n_layers()},
          {"moe_layers", std::move(moe_layers)},
          {"experts", report.n_experts},
          {"experts_per_token", report.experts_per_token},
          {"prompt_tokens", report.n_prompt},
          {"generated_tokens", report.tokens.n_tokens() - report.n_prompt},
          {"text_tokens", report.n_given},
          {"cut", report.is_cut()},
          {"active_above", report.active_threshold},
          {"seed", report.seed}};
}

DiagnosisJson changes_json(const DiagnosisReport& report) {
  DiagnosisJson changes = DiagnosisJson::array();
  for (const ChangePoint& change : report.changes) {
    changes.push_back({{"position", change.at},
                       {"divergence_bits", change.divergence_bits},
                       {"permuted_bits", change.permuted_bits},
                       {"p", change.p}});
  }
  return changes;
}

DiagnosisJson used_json(const UsedFfn& ffn) {
  return {
      {"layer", ffn.layer},      {"kind", name_of(ffn.kind)},        {"expert", expert_or_null(ffn.expert)},
      {"calls", ffn.n_calls},    {"active_share", ffn.active_share}, {"units", ffn.n_units},
      {"dead_units", ffn.n_dead}};
}

std::string dumped(const DiagnosisJson& json) {
  return json.dump(-1, ' ', false, DiagnosisJson::error_handler_t::replace);
}

}  // namespace

void write_json(const DiagnosisReport& report, FunctionRef<void(std::string_view)> write) {
  std::string head = dumped(diagnosis_head_json(report));
  head.pop_back();  // the object goes on
  write(head);
  write(",\n\"change_points\": ");
  write(dumped(changes_json(report)));
  write(",\n\"feed_forwards\": [");
  for (size_t i = 0; i < report.tokens.used.size(); ++i) {
    write(i > 0 ? ",\n" : "\n");
    write(dumped(used_json(report.tokens.used[i])));
  }
  write("],\n\"tokens\": [");
  for (int64_t position = 0; position < report.tokens.n_tokens(); ++position) {
    write(position > 0 ? ",\n" : "\n");
    write(dumped(diagnosed_token_json(report, position)));
  }
  write("]}\n");
}

}  // namespace soli
