#include "serve/openai/policy_fields.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "model/policy_text.h"
#include "model/steering.h"

namespace soli::openai {
namespace {

int64_t most_experts(const ServedModel& model, const Caller& caller) {
  const RouterSpec& router = model.spec->router;
  const int64_t of_server = std::max(model.limits.experts_per_token, router.experts_per_token);
  const int64_t of_caller = caller.experts_per_token == 0 ? of_server : caller.experts_per_token;
  return std::min({of_server, of_caller, router.n_reachable()});
}

/// The first key that the caller may not set, or "".
std::string forbidden_key(const Json& policy, const serve::PolicyAllowance& allowance) {
  for (const auto& [key, value] : policy.items()) {
    if (!allowance.allows(key)) return key;
    if (key != "layers" || !value.is_array()) continue;
    for (const Json& part : value) {
      if (!part.is_object()) continue;
      for (const auto& [inner, unused] : part.items()) {
        if (inner != "layers" && !allowance.allows(inner)) return inner;
      }
    }
  }
  return "";
}

void read_policy_object(Fields& fields, const Json& json, const ServedModel& model, const Caller& caller,
                        RoutingPolicy& policy) {
  if (!json.is_object()) return fields.fail_value("policy", json, "an object");
  const serve::PolicyAllowance allowance =
      caller.allow_policy ? model.allow_policy.within(*caller.allow_policy) : model.allow_policy;
  if (const std::string key = forbidden_key(json, allowance); !key.empty()) {
    std::vector<std::string> allowed = allowance.keys();
    std::erase(allowed, "experts_per_token");
    allowed.insert(allowed.begin(), "experts_per_token");
    return fields.fail(bad_request("invalid_value", "policy", "'policy' sets '{}'; allowed here: {}",
                                   printable(key), fmt::join(allowed, ", ")));
  }
  if (const Status status = read_policy_json(json, policy); !status)
    fields.fail(bad_request("invalid_value", "policy", "'policy': {}", status.error().message));
}

/// What the caller may not have, and what the model cannot do.
void check_policy(Fields& fields, const ServedModel& model, const Caller& caller, bool sets_experts,
                  const RoutingPolicy& policy) {
  const int64_t most = most_experts(model, caller);
  if (sets_experts && policy.most_experts_per_token() > most) {
    return fields.fail(bad_request("invalid_value", "policy",
                                   "'policy' asks for {} experts per token; allowed are 1 to {}",
                                   policy.most_experts_per_token(), most));
  }
  const int64_t of_server = std::max(model.limits.experts_per_token, model.policy.most_experts_per_token());
  const auto steering = Steering::create(policy, *model.spec, std::max(most, of_server));
  if (!steering) fields.fail(bad_request("invalid_value", "policy", "{}", steering.error().message));
}

void refuse_dense(Fields& fields, const ServedModel& model, const char* name) {
  fields.fail(bad_request("unsupported_parameter", name, "'{}' needs a model with experts; '{}' is dense",
                          name, model.id));
}

}  // namespace

void read_policy(Fields& fields, const ServedModel& model, const Caller& caller, TextJob& job,
                 Request& request) {
  const Json* const number = fields.find("experts_per_token");
  const Json* const object = fields.find("policy");
  if (!model.spec->is_moe()) {
    if (number != nullptr) refuse_dense(fields, model, "experts_per_token");
    if (object != nullptr) refuse_dense(fields, model, "policy");
    return;
  }
  RoutingPolicy& policy = request.policy;
  policy = model.policy;
  if (object != nullptr) read_policy_object(fields, *object, model, caller, policy);
  const std::optional<int64_t> asked = fields.integer("experts_per_token", {1, most_experts(model, caller)});
  if (asked) policy.experts_per_token = *asked;
  const int64_t own = model.spec->router.experts_per_token;
  job.experts_per_token = policy.experts_per_token == 0 ? own : policy.experts_per_token;
  job.show_experts_per_token = job.show_experts_per_token || number != nullptr;
  job.show_policy = object != nullptr || !model.policy.is_exact();
  if (object != nullptr && !fields.failed()) {
    check_policy(fields, model, caller, object->contains("experts_per_token") || object->contains("layers"),
                 policy);
  }
  // The model's own number is its own rule, exact, with the cached prefixes that go with it.
  policy = simplified(std::move(policy), model.spec->router);
}

}  // namespace soli::openai
