#include "model/policy_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "model/policy_controls.h"
#include "model/policy_text.h"

namespace soli {
namespace {

using Json = PolicyReader::Json;

constexpr const char* kIdsAllowed = "a list of expert ids from 0, or ranges such as \"8-15\"";

std::string shown(const Json& value) {
  // JSON has no way to write those that are not finite.
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return fmt::format("{}", value.get<double>());
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
}

/// Decimal digits and nothing else, up to `most`.
std::optional<int64_t> parse_count(std::string_view text, int64_t most) {
  int64_t value = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return {};
  return value;
}

using Range = std::pair<int64_t, int64_t>;  // both ends belong to it

/// A number from 0, or a text "first-last".
std::optional<Range> parse_range(const Json& value, int64_t most) {
  if (value.is_number_integer()) {
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(most)
                                                 : value.get<int64_t>() >= 0 && value.get<int64_t>() <= most;
    if (!fits) return {};
    const auto number = value.get<int64_t>();
    return Range{number, number};
  }
  if (!value.is_string()) return {};
  const std::string& text = value.get_ref<const std::string&>();
  const size_t dash = text.find('-');
  const auto first = parse_count(std::string_view(text).substr(0, dash), most);
  if (dash == std::string::npos) return first ? std::optional<Range>({*first, *first}) : std::nullopt;
  const auto last = parse_count(std::string_view(text).substr(dash + 1), most);
  if (!first || !last || *first > *last) return {};
  return Range{*first, *last};
}

/// Ranges that do not meet, ascending.
void merge(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end());
  size_t n = 0;
  for (const Range& range : ranges) {
    if (n > 0 && range.first <= ranges[n - 1].second + 1) {
      ranges[n - 1].second = std::max(ranges[n - 1].second, range.second);
    } else {
      ranges[n++] = range;
    }
  }
  ranges.resize(n);
}

std::optional<int64_t> number_in(const Json& value, const PolicyControl<int64_t>& control) {
  if (!value.is_number_integer()) return {};
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(control.most)) return {};
  const auto number = value.get<int64_t>();
  return control.allows(number) ? std::optional(number) : std::nullopt;
}

std::optional<double> number_in(const Json& value, const PolicyControl<double>& control) {
  if (!value.is_number()) return {};
  const auto number = value.get<double>();
  return control.allows(number) ? std::optional(number) : std::nullopt;
}

}  // namespace

tl::unexpected<Error> PolicyReader::refuse(const std::string& where, const std::string& what) {
  where_ = where;
  return fail(ErrorKind::kInvalidArgument, "{}{}{}", printable(where, 200), where.empty() ? "" : ": ", what);
}

tl::unexpected<Error> PolicyReader::refuse_value(const std::string& where, const Json& value,
                                                 const std::string& allowed) {
  return refuse(where, fmt::format("{} is not allowed; {}", shown(value), allowed));
}

Status PolicyReader::count_ids(size_t n, const std::string& where) {
  n_ids_ += n;
  if (n_ids_ <= kMaxPolicyIds) return {};
  return refuse(where, fmt::format("a policy has at most {} ids", kMaxPolicyIds));
}

Status PolicyReader::read_ids(const Json& value, const std::string& where, std::vector<int32_t>& ids) {
  if (!value.is_array()) return refuse_value(where, value, kIdsAllowed);
  std::vector<Range> ranges;
  for (const Json& item : value) {
    const std::optional<Range> range = parse_range(item, kMaxPolicyExperts - 1);
    if (!range) return refuse_value(where, item, kIdsAllowed);
    ranges.push_back(*range);
  }
  merge(ranges);
  ids.clear();
  for (const auto& [first, last] : ranges) {
    SOLI_RETURN_IF_ERROR(count_ids(static_cast<size_t>(last - first + 1), where));
    for (int64_t id = first; id <= last; ++id) ids.push_back(static_cast<int32_t>(id));
  }
  return {};
}

Status PolicyReader::read_biases(const Json& value, const std::string& where,
                                 std::vector<ExpertBias>& biases) {
  const char* const allowed = "an object from expert ids to numbers from -10000 to 10000";
  if (!value.is_object()) return refuse_value(where, value, allowed);
  SOLI_RETURN_IF_ERROR(count_ids(value.size(), where));
  biases.clear();
  for (const auto& [key, bias] : value.items()) {
    const std::optional<int64_t> id = parse_count(key, kMaxPolicyExperts - 1);
    if (!id) return refuse(where, fmt::format("'{}' is no expert id; {}", printable(key), allowed));
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= kMaxPolicyLogit))
      return refuse_value(where, bias, allowed);
    biases.push_back({static_cast<int32_t>(*id), bias.get<double>()});
  }
  std::sort(biases.begin(), biases.end(),
            [](const ExpertBias& a, const ExpertBias& b) { return a.expert < b.expert; });
  const auto twice =
      std::adjacent_find(biases.begin(), biases.end(),
                         [](const ExpertBias& a, const ExpertBias& b) { return a.expert == b.expert; });
  if (twice == biases.end()) return {};
  return refuse(where, fmt::format("expert {} is named twice", twice->expert));
}

template <typename Policy>
Result<bool> PolicyReader::read_lists(const std::string& key, const Json& value, const std::string& where,
                                      Policy& policy) {
  if (key == "mask" || key == "force") {
    std::vector<int32_t> ids;
    SOLI_RETURN_IF_ERROR(read_ids(value, where, ids));
    (key == "mask" ? policy.mask : policy.force) = std::move(ids);
    return true;
  }
  if (key != "bias") return false;
  std::vector<ExpertBias> biases;
  SOLI_RETURN_IF_ERROR(read_biases(value, where, biases));
  policy.bias = std::move(biases);
  return true;
}

Status PolicyReader::read_layer_range(const Json& value, const std::string& where, LayerPolicy& layer) {
  const std::optional<Range> range = parse_range(value, kMaxPolicyExperts - 1);
  if (!range) return refuse_value(where, value, "a layer from 0, or a range such as \"4-7\"");
  std::tie(layer.first_layer, layer.last_layer) = *range;
  return {};
}

Status PolicyReader::read_layer(const Json& value, const std::string& where, LayerPolicy& layer) {
  if (!value.is_object()) return refuse_value(where, value, "a table with layers and controls");
  if (!value.contains("layers"))
    return refuse(where, "there is no 'layers' that says which, such as layers = \"4-7\"");
  for (const auto& entry : value.items()) {
    const std::string& key = entry.key();
    const Json& item = entry.value();
    const std::string here = where + "." + key;
    if (key == "layers") {
      SOLI_RETURN_IF_ERROR(read_layer_range(item, here, layer));
      continue;
    }
    SOLI_ASSIGN_OR_RETURN(const bool is_list, read_lists(key, item, here, layer));
    if (is_list) continue;
    bool found = false;
    const auto look_in = [&](const auto& controls) -> Status {
      for (const auto& control : controls) {
        if (control.layer == nullptr || key != control.key) continue;
        found = true;
        const auto number = number_in(item, control);
        if (!number) return refuse_value(here, item, control.allowed);
        layer.*control.layer = *number;
      }
      return {};
    };
    SOLI_RETURN_IF_ERROR(look_in(kIntegerControls));
    SOLI_RETURN_IF_ERROR(look_in(kNumberControls));
    if (!found) return refuse(here, "this is no control of a layer (docs/steering.md has them)");
  }
  return {};
}

Status PolicyReader::read_layers(const Json& value, RoutingPolicy& policy) {
  if (!value.is_array()) return refuse_value("layers", value, "a list of tables");
  if (value.size() > kMaxPolicyParts)
    return refuse("layers", fmt::format("{} parts; {} are allowed", value.size(), kMaxPolicyParts));
  policy.layers.clear();
  for (size_t i = 0; i < value.size(); ++i) {
    SOLI_RETURN_IF_ERROR(read_layer(value[i], fmt::format("layers[{}]", i), policy.layers.emplace_back()));
  }
  return {};
}

/// A control of all layers.
Status PolicyReader::read_shared(const std::string& key, const Json& value, RoutingPolicy& policy) {
  if (key == "layers") return read_layers(value, policy);
  if (key == "overflow") {
    if (value != "next" && value != "drop") return refuse_value(key, value, "\"next\" or \"drop\"");
    policy.overflow = value == "next" ? Overflow::kNext : Overflow::kDrop;
    return {};
  }
  SOLI_ASSIGN_OR_RETURN(const bool is_list, read_lists(key, value, key, policy));
  if (is_list) return {};
  bool found = false;
  const auto look_in = [&](const auto& controls) -> Status {
    for (const auto& control : controls) {
      if (key != control.key) continue;
      found = true;
      const auto number = number_in(value, control);
      if (!number) return refuse_value(key, value, control.allowed);
      policy.*control.all = *number;
    }
    return {};
  };
  SOLI_RETURN_IF_ERROR(look_in(kIntegerControls));
  SOLI_RETURN_IF_ERROR(look_in(kNumberControls));
  if (found) return {};
  return refuse(key, "this is no control of a routing policy (docs/steering.md has them)");
}

Status PolicyReader::read(const Json& json, RoutingPolicy& policy) {
  if (!json.is_object()) return refuse_value("", json, "a routing policy is an object");
  for (const auto& [key, value] : json.items()) SOLI_RETURN_IF_ERROR(read_shared(key, value, policy));
  return {};
}

Status read_policy_json(const Json& json, RoutingPolicy& policy) { return PolicyReader().read(json, policy); }

}  // namespace soli
