#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "model/routing_policy.h"
#include "model/spec.h"

namespace CLI {
class App;
}

namespace soli::cli {

/// How a command line says that the routing is to be steered.
struct PolicyOptions {
  std::string file;                   // TOML, or ""
  std::vector<std::string> settings;  // KEY=VALUE, which go before what the file says
  int64_t experts_per_token = 0;      // the same as the key, before both; 0: not given
};

/// Adds --policy and --steer.
void add_policy_options(CLI::App& app, PolicyOptions& options);

/// One "KEY=VALUE", its value as in TOML; "k" is short for experts_per_token. Fails naming the setting.
Status apply_policy_setting(std::string_view setting, RoutingPolicy& policy);

/// The policy that the options mean, whatever the model. Fails for a file that cannot be read and for what
/// no policy can be, naming file and line, or the setting.
Result<RoutingPolicy> read_policy(const PolicyOptions& options);

/// Lets an engine serve requests with this policy.
void make_room_for(const RoutingPolicy& policy, EngineOptions& engine);

/// The policy in the terms of this model (model/steering.h, simplified()). Fails for what the model cannot
/// do, and says on stderr where the routing will not be the model's own.
Result<RoutingPolicy> announce_policy(const RoutingPolicy& policy, const ModelSpec& spec);

}  // namespace soli::cli
