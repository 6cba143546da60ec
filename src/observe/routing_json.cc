#include "observe/routing_json.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "io/file_writer.h"

namespace soli {
namespace {

using Json = nlohmann::ordered_json;

Status append(FileWriter& writer, std::string_view text) {
  return writer.append(std::as_bytes(std::span(text)));
}

/// Sizes of the experts, [MoE layer][expert].
Json expert_sizes(const ParameterCounts& counts, int64_t PartSize::*member) {
  Json layers = Json::array();
  for (const std::vector<PartSize>& experts : counts.expert) {
    if (experts.empty()) continue;
    Json sizes = Json::array();
    for (const PartSize& expert : experts) sizes.push_back(expert.*member);
    layers.push_back(std::move(sizes));
  }
  return layers;
}

/// All members before "tokens", without the closing brace.
std::string head_json(const ModelSpec& spec, const ParameterCounts& counts, int64_t n_prompt,
                      const ActivationReport& report) {
  Json moe_layers = Json::array();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) moe_layers.push_back(layer);
  }
  Json windows = Json::array();  // of each layer; 0: none
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    windows.push_back(spec.has_window(layer) ? spec.sliding_window : 0);
  const Json head = {{"format", "soli-routing-1"},
                     {"model", report.model},
                     {"n_layers", spec.n_layers},
                     {"moe_layers", moe_layers},
                     {"n_experts", spec.router.n_experts},
                     {"experts_per_token", spec.router.experts_per_token},
                     {"n_heads", spec.n_heads},
                     {"head_dim", spec.head_dim},
                     {"value_dim", spec.value_dim},
                     {"windows", windows},
                     {"n_prompt", n_prompt},
                     {"nominal_parameters", counts.nominal_total.parameters},
                     {"always_active_parameters", counts.always_active.parameters},
                     {"always_active_bytes", counts.always_active.bytes},
                     {"expert_parameters", expert_sizes(counts, &PartSize::parameters)},
                     {"expert_bytes", expert_sizes(counts, &PartSize::bytes)}};
  std::string text = head.dump();
  text.pop_back();
  return text;
}

/// Writes the tokens one after the other into `writer`, each on a line of its own.
class TokenWriter {
 public:
  TokenWriter(FileWriter& writer, int64_t n_prompt) : writer_(writer), n_prompt_(n_prompt) {}

  void begin(int64_t position, const std::string& token) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    print(R"({{"token":{},"position":{},"kind":"{}","layers":[)", token, position,
          position < n_prompt_ ? "prompt" : "generated");
  }

  /// fmt writes the shortest decimal that reads back as the same float.
  void add_layer(const RecordedRoute& route, std::span<const ExpertCall> calls, bool first) {
    print(R"({}{{"layer":{},"ids":[)", first ? "" : ",", route.layer);
    for (size_t i = 0; i < calls.size(); ++i) print("{}{}", i == 0 ? "" : ",", calls[i].expert);
    text_ += R"(],"weights":[)";
    for (size_t i = 0; i < calls.size(); ++i) print("{}{}", i == 0 ? "" : ",", calls[i].weight);
    print(R"(],"gate_entropy":{}}})", route.gate_entropy_bits);
  }

  Status end() {
    text_ += "]}";
    SOLI_RETURN_IF_ERROR(append(writer_, text_));
    text_.clear();
    return {};
  }

 private:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  FileWriter& writer_;
  const int64_t n_prompt_;
  std::string text_;  // of the current token
  bool first_ = true;
};

Status write_recorded_tokens(const RequestChoices& choices, TokenWriter& tokens) {
  const std::vector<RecordedRoute>& routes = choices.routes;
  for (size_t begin = 0, end = 0; begin < routes.size(); begin = end) {
    tokens.begin(routes[begin].position, fmt::to_string(routes[begin].token));
    for (; end < routes.size() && routes[end].position == routes[begin].position; ++end) {
      tokens.add_layer(routes[end], choices.calls_of(routes[end]), end == begin);
    }
    SOLI_RETURN_IF_ERROR(tokens.end());
  }
  return {};
}

/// The tokens of a dense model have positions, and no choices.
Status write_dense_tokens(const ActivationReport& report, TokenWriter& tokens) {
  for (const TokenActivation& token : report.tokens) {
    tokens.begin(token.position, "null");
    SOLI_RETURN_IF_ERROR(tokens.end());
  }
  return {};
}

}  // namespace

Status write_routing_json(const std::string& path, const RequestChoices& choices, const ModelSpec& spec,
                          const ParameterCounts& counts, int64_t n_prompt, const ActivationReport& report) {
  SOLI_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::create(path));
  SOLI_RETURN_IF_ERROR(append(writer, head_json(spec, counts, n_prompt, report) + ",\n\"tokens\":["));
  TokenWriter tokens(writer, n_prompt);
  SOLI_RETURN_IF_ERROR(spec.is_moe() ? write_recorded_tokens(choices, tokens)
                                     : write_dense_tokens(report, tokens));
  SOLI_RETURN_IF_ERROR(append(writer, "\n],\n\"report\":" + to_json(report).dump() + "}\n"));
  return writer.commit();
}

}  // namespace soli
