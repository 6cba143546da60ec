#include "serve/openai/routing.h"

#include <iterator>

#include "base/check.h"
#include "observe/activation_report.h"

namespace soli::openai {
namespace {

/// [[..],[..]]: a list for each layer with experts. Floats have as many digits as tell them apart.
template <typename PartOf>
void append_layers(std::string& text, int64_t n_layers, PartOf part_of) {
  text += '[';
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    text += layer == 0 ? "[" : ",[";
    const char* separator = "";
    for (const auto value : part_of(layer)) {
      fmt::format_to(std::back_inserter(text), "{}{}", separator, value);
      separator = ",";
    }
    text += ']';
  }
  text += ']';
}

/// The number among all layers of each layer with experts.
std::vector<int32_t> moe_layers(const ModelSpec& spec) {
  std::vector<int32_t> layers;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) layers.push_back(static_cast<int32_t>(layer));
  }
  return layers;
}

}  // namespace

void ChoiceRouting::add(const TokenRouting& routing, int32_t token, int64_t& bytes_left) {
  if (routing.position < next_position_) return;
  next_position_ = routing.position + 1;
  const std::vector<int32_t> layers = moe_layers(*model_->spec);
  SOLI_CHECK(routing.n_layers() == static_cast<int64_t>(layers.size()), "{} layers of {}", routing.n_layers(),
             layers.size());
  const auto bytes =
      static_cast<int64_t>(layers.size() * sizeof(RecordedRoute) + routing.ids.size() * sizeof(ExpertCall));
  if (bytes > bytes_left) {
    ++n_dropped_;
    return;
  }
  bytes_left -= bytes;
  for (int64_t layer = 0; layer < routing.n_layers(); ++layer) {
    const auto ids = routing.ids_of(layer);
    const auto weights = routing.weights_of(layer);
    choices_.routes.push_back({.position = routing.position,
                               .token = token,
                               .layer = layers[static_cast<size_t>(layer)],
                               .n_calls = static_cast<int32_t>(ids.size()),
                               .first_call = static_cast<int64_t>(choices_.calls.size())});
    for (size_t i = 0; i < ids.size(); ++i) choices_.calls.push_back({ids[i], weights[i]});
  }
  if (detail_ != RoutingDetail::kTokens) return;
  const size_t before = tokens_.size();
  append_token(routing, token);
  bytes_left -= static_cast<int64_t>(tokens_.size() - before);
}

void ChoiceRouting::append_token(const TokenRouting& routing, int32_t token) {
  if (!tokens_.empty()) tokens_ += ',';
  fmt::format_to(std::back_inserter(tokens_), R"({{"position":{},"token":{},"experts":)", routing.position,
                 token);
  append_layers(tokens_, routing.n_layers(), [&](int64_t layer) { return routing.ids_of(layer); });
  tokens_ += R"(,"weights":)";
  append_layers(tokens_, routing.n_layers(), [&](int64_t layer) { return routing.weights_of(layer); });
  tokens_ += '}';
}

void ChoiceRouting::clear_tokens(int64_t& bytes_left) {
  bytes_left += static_cast<int64_t>(tokens_.size());
  tokens_.clear();
}

Json ChoiceRouting::summary(int64_t experts_per_token) const {
  ActivationReport report = make_report(choices_, *model_->spec, *model_->parameters, n_prompt_);
  report.tokens.clear();
  report.experts_per_token = experts_per_token;
  Json json = to_json(report);
  // The engine keeps the choices, and not the whole distribution that they were made from.
  for (const char* const part : {"all", "prompt", "generated"}) json[part].erase("gate_entropy_bits");
  for (const char* const name : {"tokens", "by_position", "n_dropped_routes"}) json.erase(name);
  json["n_dropped_tokens"] = n_dropped_;
  return json;
}

}  // namespace soli::openai
