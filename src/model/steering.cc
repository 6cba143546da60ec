#include "model/steering.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/policy_controls.h"

namespace soli {
namespace {

template <typename... Args>
tl::unexpected<Error> refuse_policy(const std::string& where, fmt::format_string<Args...> format,
                                    Args&&... args) {
  return fail(ErrorKind::kInvalidArgument, "policy: {}{}", where,
              fmt::format(format, std::forward<Args>(args)...));
}

/// The policy of one layer, as if it were that of all.
RoutingPolicy in_layer(const RoutingPolicy& policy, int64_t layer) {
  RoutingPolicy resolved = policy;
  resolved.layers.clear();
  const auto take = [](const auto& given, auto& value) {
    if (given) value = *given;
  };
  for (const LayerPolicy& part : policy.layers) {
    if (layer < part.first_layer || layer > part.last_layer) continue;
    for (const auto& control : kIntegerControls)
      if (control.layer != nullptr) take(part.*control.layer, resolved.*control.all);
    for (const auto& control : kNumberControls)
      if (control.layer != nullptr) take(part.*control.layer, resolved.*control.all);
    take(part.mask, resolved.mask);
    take(part.force, resolved.force);
    take(part.bias, resolved.bias);
  }
  return resolved;
}

Status check_numbers(const RoutingPolicy& policy, const std::string& where) {
  const auto check = [&](const auto& controls) -> Status {
    for (const auto& control : controls) {
      if (!control.allows(policy.*control.all)) {
        return refuse_policy(where, "{}: {} is not allowed; {}", control.key, policy.*control.all,
                             control.allowed);
      }
    }
    return {};
  };
  SOLI_RETURN_IF_ERROR(check(kIntegerControls));
  return check(kNumberControls);
}

Status check_id(const char* key, int32_t id, const RouterSpec& router, const std::string& where) {
  if (id >= 0 && id < router.n_experts) return {};
  return refuse_policy(where, "{}: there is no expert {}; 0 to {}", key, id, router.n_experts - 1);
}

Status check_k(const RoutingPolicy& policy, const RouterSpec& router, int64_t most_k,
               const std::string& where) {
  const int64_t most = std::min(std::max(most_k, router.experts_per_token), router.n_reachable());
  if (policy.experts_per_token > most) {
    return refuse_policy(where, "experts_per_token: {} is not allowed; 1 to {}, or 0 for the model's own {}",
                         policy.experts_per_token, most, router.experts_per_token);
  }
  if (policy.k_min > router.n_experts) {
    return refuse_policy(where, "k_min: {} is not allowed; 1 to {}", policy.k_min, router.n_experts);
  }
  return {};
}

Status check_experts(const RoutingPolicy& policy, const RouterSpec& router, const std::string& where) {
  for (const int32_t id : policy.mask) SOLI_RETURN_IF_ERROR(check_id("mask", id, router, where));
  for (const int32_t id : policy.force) SOLI_RETURN_IF_ERROR(check_id("force", id, router, where));
  for (const ExpertBias& bias : policy.bias) {
    SOLI_RETURN_IF_ERROR(check_id("bias", bias.expert, router, where));
    if (!(std::abs(bias.bias) <= kMaxPolicyLogit)) {
      return refuse_policy(where, "bias: {} of expert {} is not allowed; -{} to {}", bias.bias, bias.expert,
                           kMaxPolicyLogit, kMaxPolicyLogit);
    }
  }
  const auto n_left = router.n_experts - static_cast<int64_t>(policy.mask.size());
  if (n_left <= 0) return refuse_policy(where, "mask: all {} experts are masked", router.n_experts);
  if (policy.experts_per_token > n_left) {
    return refuse_policy(where, "experts_per_token: {} is not possible; {} of {} experts are not masked",
                         policy.experts_per_token, n_left, router.n_experts);
  }
  const int64_t k = policy.experts_per_token == 0 ? router.experts_per_token : policy.experts_per_token;
  if (static_cast<int64_t>(policy.force.size()) > k) {
    return refuse_policy(where, "force: {} experts are forced, and a token has {}", policy.force.size(), k);
  }
  for (const int32_t id : policy.force) {
    if (std::find(policy.mask.begin(), policy.mask.end(), id) != policy.mask.end())
      return refuse_policy(where, "force: expert {} is masked", id);
  }
  return {};
}

/// The layers that a part of the policy names must be there, and some of them must have experts.
Status check_layers(const LayerPolicy& part, const ModelSpec& spec) {
  const std::string where = fmt::format("layers {}-{}: ", part.first_layer, part.last_layer);
  if (part.first_layer < 0 || part.first_layer > part.last_layer || part.last_layer >= spec.n_layers) {
    return refuse_policy(where, "this model has the layers 0 to {}", spec.n_layers - 1);
  }
  for (int64_t layer = part.first_layer; layer <= part.last_layer; ++layer) {
    if (spec.is_moe_layer(layer)) return {};
  }
  return refuse_policy(where, "none of them has experts");
}

Status check_layer(const RoutingPolicy& resolved, const RouterSpec& router, int64_t most_k,
                   const std::string& where) {
  SOLI_RETURN_IF_ERROR(check_numbers(resolved, where));
  SOLI_RETURN_IF_ERROR(check_k(resolved, router, most_k, where));
  return check_experts(resolved, router, where);
}

/// See docs/steering.md: the usual capacity ceil(T k / E * factor), for the T positions of a window.
int64_t capacity_of(const RoutingPolicy& policy, const RouterSpec& router, int64_t k) {
  if (policy.capacity_factor == 0) return 0;
  const double share =
      static_cast<double>(policy.capacity_window * k) / static_cast<double>(router.n_experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share * policy.capacity_factor)));
}

LayerSteering steer_layer(const RoutingPolicy& policy, const RouterSpec& router, int64_t moe_layer) {
  LayerSteering layer;
  layer.moe_layer = moe_layer;
  layer.k = policy.experts_per_token == 0 ? router.experts_per_token : policy.experts_per_token;
  layer.k_min = policy.k_min;
  layer.relative_threshold = policy.relative_threshold;
  layer.cumulative_probability = policy.cumulative_probability;
  layer.temperature = policy.temperature;
  layer.noise = policy.noise;
  layer.smoothing = policy.smoothing;
  layer.context_gate = policy.context_gate;
  layer.input_clamp = policy.input_clamp;
  layer.capacity = capacity_of(policy, router, layer.k);
  layer.forced = policy.force;
  const auto n_experts = static_cast<size_t>(router.n_experts);
  if (!policy.mask.empty()) layer.masked.assign(n_experts, 0);
  for (const int32_t id : policy.mask) layer.masked[static_cast<size_t>(id)] = 1;
  if (!policy.bias.empty()) layer.bias.assign(n_experts, 0);
  for (const ExpertBias& bias : policy.bias)
    layer.bias[static_cast<size_t>(bias.expert)] = static_cast<float>(bias.bias);
  return layer;
}

}  // namespace

Result<std::shared_ptr<const Steering>> Steering::create(const RoutingPolicy& policy, const ModelSpec& spec,
                                                         int64_t most_k) {
  if (policy.is_exact()) return nullptr;
  if (!spec.is_moe()) return refuse_policy("", "it needs a model with experts, and this one is dense");
  for (const LayerPolicy& part : policy.layers) SOLI_RETURN_IF_ERROR(check_layers(part, spec));
  RoutingPolicy of_all = policy;
  of_all.layers.clear();
  SOLI_RETURN_IF_ERROR(check_numbers(of_all, ""));
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    const bool is_of_all = policy.layers.empty();
    SOLI_RETURN_IF_ERROR(check_layer(in_layer(policy, layer), spec.router, most_k,
                                     is_of_all ? "" : fmt::format("layer {}: ", layer)));
    if (is_of_all) break;  // all others are like it
  }
  if (!policy.has_steering()) return nullptr;
  return std::shared_ptr<const Steering>(new Steering(policy, spec));
}

Steering::Steering(const RoutingPolicy& policy, const ModelSpec& spec)
    : layout_(spec),
      noise_seed_(static_cast<uint64_t>(policy.noise_seed)),
      context_gate_tokens_(policy.context_gate_tokens),
      capacity_window_(policy.capacity_window),
      overflow_(policy.overflow),
      is_stateful_(policy.is_stateful()) {
  int64_t n_moe_layers = 0;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    const bool is_moe = spec.is_moe_layer(layer);
    layers_.push_back(is_moe ? steer_layer(in_layer(policy, layer), spec.router, n_moe_layers)
                             : LayerSteering{});
    n_moe_layers += is_moe ? 1 : 0;
  }
}

RoutingPolicy simplified(RoutingPolicy policy, const RouterSpec& router) {
  if (policy.experts_per_token == router.experts_per_token) policy.experts_per_token = 0;
  for (LayerPolicy& part : policy.layers) {
    if (part.experts_per_token == router.experts_per_token) part.experts_per_token = 0;
  }
  std::erase_if(policy.layers, [](const LayerPolicy& part) {
    return part == LayerPolicy{.first_layer = part.first_layer, .last_layer = part.last_layer};
  });
  return policy;
}

}  // namespace soli
