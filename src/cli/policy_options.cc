#include "cli/policy_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/utf8.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/text_input.h"
#include "model/policy_text.h"
#include "model/steering.h"

namespace soli::cli {

void add_policy_options(CLI::App& app, PolicyOptions& options) {
  add_path(app, "--policy", options.file,
           "Steer the routing (lossy) as a TOML file says; docs/steering.md has the controls");
  app.add_option("--steer", options.settings,
                 "One control of the routing policy, such as k=2, temperature=0.5 or mask=[3,7]; may come "
                 "several times, and goes before --policy")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

Status apply_policy_setting(std::string_view setting, RoutingPolicy& policy) {
  const std::string shown = printable(setting);
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos || setting.find('\n') != std::string_view::npos) {
    return fail(ErrorKind::kInvalidArgument, "--steer {}: it takes KEY=VALUE, such as temperature=0.5",
                shown);
  }
  std::string line(setting);
  if (setting.substr(0, equals) == "k") line = "experts_per_token" + line.substr(equals);
  const Status status = read_policy_toml(line, "--steer " + shown, policy);
  if (status) return {};
  return fail(ErrorKind::kInvalidArgument, "{}", status.error().message);
}

Result<RoutingPolicy> read_policy(const PolicyOptions& options) {
  RoutingPolicy policy;
  if (!options.file.empty()) {
    SOLI_ASSIGN_OR_RETURN(const std::string text,
                          read_text(options.file, static_cast<int64_t>(kMaxPolicyBytes)));
    SOLI_RETURN_IF_ERROR(read_policy_toml(text, options.file, policy));
  }
  for (const std::string& setting : options.settings)
    SOLI_RETURN_IF_ERROR(apply_policy_setting(setting, policy));
  if (options.experts_per_token > 0) policy.experts_per_token = options.experts_per_token;
  return policy;
}

void make_room_for(const RoutingPolicy& policy, EngineOptions& engine) {
  engine.max_experts_per_token = std::max(engine.max_experts_per_token, policy.most_experts_per_token());
  engine.keep_steering_state = engine.keep_steering_state || policy.is_stateful();
}

Result<RoutingPolicy> announce_policy(const RoutingPolicy& policy, const ModelSpec& spec) {
  const auto steering = Steering::create(policy, spec, spec.router.n_reachable());
  if (!steering) return tl::unexpected<Error>(steering.error());
  RoutingPolicy result = simplified(policy, spec.router);
  if (!result.is_exact()) print_note("soli: the routing is steered, which is lossy: {}\n", describe(result));
  return result;
}

}  // namespace soli::cli
