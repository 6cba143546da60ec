// Any text is refused as a routing policy with an error that names the file, or is one: printed, it is read
// back to the same; and a model can carry it out, or refuses it with an error.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "model/policy_text.h"
#include "model/steering.h"

namespace {

using soli::RoutingPolicy;

void check_policy_text(const RoutingPolicy& policy) {
  RoutingPolicy again;
  SOLI_CHECK(soli::read_policy_toml(soli::policy_toml(policy), "f", again) && again == policy);
  RoutingPolicy of_json;
  SOLI_CHECK(soli::read_policy_json(soli::policy_json(policy), of_json) && of_json == policy);
  SOLI_CHECK(again.hash() == policy.hash() && soli::is_valid_utf8(soli::describe(policy)));
}

void check_steering(const RoutingPolicy& policy, const soli::ModelSpec& spec) {
  const auto steering = soli::Steering::create(policy, spec, spec.router.n_experts);
  if (!steering) {
    SOLI_CHECK(steering.error().message.starts_with("policy: "));
    return;
  }
  SOLI_CHECK(policy.most_experts_per_token() <= spec.router.n_reachable());
  SOLI_CHECK((*steering != nullptr) == policy.has_steering());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  RoutingPolicy policy;
  if (const soli::Status status = soli::read_policy_toml(text, "f", policy); !status) {
    SOLI_CHECK(status.error().message.starts_with("f:") && soli::is_valid_utf8(status.error().message));
    return 0;
  }
  check_policy_text(policy);
  soli::ModelSpec spec;
  spec.n_layers = 4;
  check_steering(policy, spec);
  spec.router = {.n_experts = 8, .experts_per_token = 2, .n_groups = 4, .n_groups_used = 2};
  check_steering(policy, spec);
  return 0;
}
