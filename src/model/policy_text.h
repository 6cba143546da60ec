#pragma once

// Routing policies as people and clients write them: one set of keys (docs/steering.md), as TOML or as JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/routing_policy.h"

namespace soli {

inline constexpr size_t kMaxPolicyBytes = size_t{1} << 20;
inline constexpr size_t kMaxPolicyParts = 512;            // [[layers]]
inline constexpr size_t kMaxPolicyIds = size_t{1} << 18;  // in all lists of a policy together

/// The keys of a policy, in the order in which docs/steering.md has them.
std::vector<std::string> policy_keys();

/// Reads a JSON object into `policy`: keys that it has go before what was there, "layers" as a whole. Fails
/// with kInvalidArgument, naming the key ("layers[1].mask: ..."), for one that is not known, a value of the
/// wrong kind or out of its range, and a layer's control that is of all layers only. What a model cannot do,
/// Steering::create() finds. After a failure `policy` means nothing.
Status read_policy_json(const nlohmann::ordered_json& json, RoutingPolicy& policy);

/// The same for TOML; `name` stands for the text in errors, with the line.
Status read_policy_toml(std::string_view text, const std::string& name, RoutingPolicy& policy);

/// What differs from the default, by the keys of read_policy_json(), which reads it back to the same policy.
nlohmann::ordered_json policy_json(const RoutingPolicy& policy);
std::string policy_toml(const RoutingPolicy& policy);
/// One line for people.
std::string describe(const RoutingPolicy& policy);

}  // namespace soli
