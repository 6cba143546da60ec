#include "model/policy_text.h"

#include <cmath>
#include <utility>

#include "format/toml_text.h"
#include "model/policy_controls.h"
#include "model/policy_reader.h"

namespace soli {
namespace {

using Json = nlohmann::ordered_json;

/// Dates and times become null, which is nothing that a policy has. parse_toml() bounds the depth.
Json json_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = json_of(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& item : *array) list.push_back(json_of(item));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  return nullptr;
}

/// The line on which the thing at fault stands, or that of the table itself.
int64_t line_of_policy(const toml::table& table, const std::string& where) {
  // A key with other characters than those of the controls is none, and stands at the front.
  const auto view = table.at_path(where);
  if (view.node() != nullptr) return static_cast<int64_t>(view.node()->source().begin.line);
  return static_cast<int64_t>(table.source().begin.line);
}

template <typename T>
void put(Json& json, const char* key, const T& value, const T& usual) {
  if (value != usual) json[key] = value;
}
template <typename T>
void put(Json& json, const char* key, const std::optional<T>& value, const std::optional<T>& /*usual*/) {
  if (value) json[key] = *value;
}

Json biases_json(const std::vector<ExpertBias>& biases) {
  Json json = Json::object();
  for (const ExpertBias& bias : biases) json[std::to_string(bias.expert)] = bias.bias;
  return json;
}

Json layer_json(const LayerPolicy& layer) {
  Json json;
  if (layer.first_layer == layer.last_layer) {
    json["layers"] = layer.first_layer;
  } else {
    json["layers"] = fmt::format("{}-{}", layer.first_layer, layer.last_layer);
  }
  const auto put_all = [&](const auto& controls) {
    for (const auto& control : controls) {
      if (control.layer != nullptr) put(json, control.key, layer.*control.layer, {});
    }
  };
  put_all(kIntegerControls);
  put_all(kNumberControls);
  put(json, "mask", layer.mask, {});
  put(json, "force", layer.force, {});
  if (layer.bias) json["bias"] = biases_json(*layer.bias);
  return json;
}

/// A value as TOML writes it within a line; JSON's texts and lists are TOML's.
std::string toml_value(const Json& value) {
  if (!value.is_object()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items())
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, toml_value(item));
  return text.empty() ? "{}" : "{ " + text + " }";
}

std::string join_settings(const Json& json, const char* separator) {
  std::string text;
  for (const auto& [key, value] : json.items()) {
    if (key == "layers") continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : separator, key, toml_value(value));
  }
  return text;
}

}  // namespace

std::vector<std::string> policy_keys() {
  std::vector<std::string> keys;
  for (const auto& control : kIntegerControls) keys.emplace_back(control.key);
  for (const auto& control : kNumberControls) keys.emplace_back(control.key);
  for (const char* key : {"mask", "force", "bias", "overflow", "layers"}) keys.emplace_back(key);
  return keys;
}

Status read_policy_toml(std::string_view text, const std::string& name, RoutingPolicy& policy) {
  SOLI_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, name, kMaxPolicyBytes));
  PolicyReader reader;
  if (Status status = reader.read(json_of(table), policy); !status) {
    return fail(ErrorKind::kMalformed, "{}:{}: {}", name, line_of_policy(table, reader.where()),
                status.error().message);
  }
  return {};
}

Json policy_json(const RoutingPolicy& policy) {
  const RoutingPolicy usual;
  Json json = Json::object();
  const auto put_all = [&](const auto& controls) {
    for (const auto& control : controls) put(json, control.key, policy.*control.all, usual.*control.all);
  };
  put_all(kIntegerControls);
  put_all(kNumberControls);
  put(json, "mask", policy.mask, usual.mask);
  put(json, "force", policy.force, usual.force);
  if (!policy.bias.empty()) json["bias"] = biases_json(policy.bias);
  if (policy.overflow == Overflow::kDrop) json["overflow"] = "drop";
  for (const LayerPolicy& layer : policy.layers) json["layers"].push_back(layer_json(layer));
  return json;
}

std::string policy_toml(const RoutingPolicy& policy) {
  const Json json = policy_json(policy);
  std::string text = join_settings(json, "\n");
  if (!text.empty()) text += "\n";
  for (const LayerPolicy& layer : policy.layers) {
    const Json part = layer_json(layer);
    text += fmt::format("\n[[layers]]\nlayers = {}\n", part["layers"].dump());
    const std::string settings = join_settings(part, "\n");
    if (!settings.empty()) text += settings + "\n";
  }
  return text;
}

std::string describe(const RoutingPolicy& policy) {
  if (policy.is_exact()) return "the model's own routing";
  std::string text = join_settings(policy_json(policy), ", ");
  for (const LayerPolicy& layer : policy.layers) {
    text += fmt::format("{}in layers {}-{}: {}", text.empty() ? "" : "; ", layer.first_layer,
                        layer.last_layer, join_settings(layer_json(layer), ", "));
  }
  return text;
}

}  // namespace soli
