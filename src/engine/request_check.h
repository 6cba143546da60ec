#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/request.h"
#include "model/spec.h"

namespace soli {

/// What an engine can do for a request.
struct RequestLimits {
  int64_t context_length = 0;
  int64_t max_experts_per_token = 0;  // that a policy may ask for; the model's k at least
  bool keeps_routing = false;
  bool keeps_steering_state = false;
};

/// Fails with kInvalidArgument for a request that no engine with these limits can serve, whatever its policy:
/// names what is wrong, its value and what is allowed.
Status check_request(const Request& request, const ModelSpec& spec, const RequestLimits& limits);

/// As Steering::create(). Fails too for a policy with state where none is kept.
Result<std::shared_ptr<const Steering>> resolve_policy(const RoutingPolicy& policy, const ModelSpec& spec,
                                                       const RequestLimits& limits);

}  // namespace soli
