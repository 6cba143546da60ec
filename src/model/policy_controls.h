#pragma once

// The numeric controls of a routing policy as a table: reading, checking, printing and hashing walk through
// it, so that none can leave one out.

#include <cstdint>
#include <limits>
#include <optional>

#include "model/routing_policy.h"

namespace soli {

/// A control that is a number: where it lies and what it may be. The default is that of the member.
template <typename T>
struct PolicyControl {
  const char* key;
  T RoutingPolicy::*all;                 // of all layers
  std::optional<T> LayerPolicy::*layer;  // of some; null: it has no part of its own in a layer
  T least;
  T most;
  const char* allowed;  // as an error says it
  bool least_is_open = false;
  bool most_is_open = false;

  /// False for what is no number, too.
  bool allows(T value) const {
    return (least_is_open ? value > least : value >= least) && (most_is_open ? value < most : value <= most);
  }
};

inline constexpr int64_t kMaxPolicyExperts = int64_t{1} << 16;  // as a model may have
inline constexpr int64_t kMaxContextGateTokens = 256;           // that a context gate looks back at
inline constexpr int64_t kMaxCapacityWindow = 4096;             // positions
inline constexpr double kMaxPolicyLogit = 1e4;                  // of what is added to a logit
inline constexpr double kMinPolicyTemperature = 1e-6;           // by which no logit becomes infinite

inline constexpr PolicyControl<int64_t> kIntegerControls[] = {
    {"experts_per_token", &RoutingPolicy::experts_per_token, &LayerPolicy::experts_per_token, 0,
     kMaxPolicyExperts, "a whole number from 1, or 0 for the model's own"},
    {"k_min", &RoutingPolicy::k_min, &LayerPolicy::k_min, 1, kMaxPolicyExperts, "a whole number from 1"},
    {"noise_seed", &RoutingPolicy::noise_seed, nullptr, 0, std::numeric_limits<int64_t>::max(),
     "a whole number from 0"},
    {"context_gate_tokens", &RoutingPolicy::context_gate_tokens, nullptr, 1, kMaxContextGateTokens,
     "a whole number from 1 to 256"},
    {"capacity_window", &RoutingPolicy::capacity_window, nullptr, 1, kMaxCapacityWindow,
     "a whole number from 1 to 4096"},
};

inline constexpr PolicyControl<double> kNumberControls[] = {
    {"relative_threshold", &RoutingPolicy::relative_threshold, &LayerPolicy::relative_threshold, 0, 1,
     "a number from 0 to 1"},
    {"cumulative_probability", &RoutingPolicy::cumulative_probability, &LayerPolicy::cumulative_probability,
     0, 1, "a number above 0, and at most 1", true},
    {"temperature", &RoutingPolicy::temperature, &LayerPolicy::temperature, kMinPolicyTemperature, 1000,
     "a number from 0.000001 to 1000"},
    {"noise", &RoutingPolicy::noise, &LayerPolicy::noise, 0, 1000, "a number from 0 to 1000"},
    {"smoothing", &RoutingPolicy::smoothing, &LayerPolicy::smoothing, 0, 1, "a number from 0, and below 1",
     false, true},
    {"context_gate", &RoutingPolicy::context_gate, &LayerPolicy::context_gate, -kMaxPolicyLogit,
     kMaxPolicyLogit, "a number from -10000 to 10000"},
    {"input_clamp", &RoutingPolicy::input_clamp, &LayerPolicy::input_clamp, 0, 1e9,
     "a number from 0 to 1000000000"},
    {"capacity_factor", &RoutingPolicy::capacity_factor, &LayerPolicy::capacity_factor, 0, 1000,
     "a number from 0 to 1000"},
};

}  // namespace soli
