#include "model/routing_policy.h"

#include <algorithm>
#include <bit>

#include "base/rng.h"
#include "model/policy_controls.h"

namespace soli {
namespace {

/// Order and number of what is added matter, so that lists cannot run into each other.
class PolicyHash {
 public:
  void add(uint64_t bits) { value_ = hash_u64(value_ ^ bits) + 1; }
  void add(int64_t number) { add(static_cast<uint64_t>(number)); }
  void add(double number) { add(std::bit_cast<uint64_t>(number)); }
  void add(const std::vector<int32_t>& ids) {
    add(static_cast<uint64_t>(ids.size()));
    for (const int32_t id : ids) add(int64_t{id});
  }
  void add(const std::vector<ExpertBias>& biases) {
    add(static_cast<uint64_t>(biases.size()));
    for (const ExpertBias& bias : biases) {
      add(int64_t{bias.expert});
      add(bias.bias);
    }
  }
  template <typename T>
  void add(const std::optional<T>& value) {
    add(static_cast<uint64_t>(value ? 1 : 0));
    if (value) add(*value);
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

}  // namespace

uint64_t RoutingPolicy::hash() const {
  PolicyHash hash;
  for (const auto& control : kIntegerControls) hash.add(this->*control.all);
  for (const auto& control : kNumberControls) hash.add(this->*control.all);
  hash.add(mask);
  hash.add(force);
  hash.add(bias);
  hash.add(static_cast<int64_t>(overflow));
  for (const LayerPolicy& layer : layers) {
    hash.add(layer.first_layer);
    hash.add(layer.last_layer);
    for (const auto& control : kIntegerControls)
      if (control.layer != nullptr) hash.add(layer.*control.layer);
    for (const auto& control : kNumberControls)
      if (control.layer != nullptr) hash.add(layer.*control.layer);
    hash.add(layer.mask);
    hash.add(layer.force);
    hash.add(layer.bias);
  }
  return hash.value();
}

bool RoutingPolicy::has_steering() const {
  return *this != RoutingPolicy{.experts_per_token = experts_per_token,
                                .relative_threshold = relative_threshold,
                                .k_min = k_min};
}

int64_t RoutingPolicy::most_experts_per_token() const {
  int64_t most = experts_per_token;
  for (const LayerPolicy& layer : layers) most = std::max(most, layer.experts_per_token.value_or(0));
  return most;
}

bool RoutingPolicy::is_stateful() const {
  if (smoothing != 0 || context_gate != 0 || capacity_factor != 0) return true;
  return std::any_of(layers.begin(), layers.end(), [](const LayerPolicy& layer) {
    return layer.smoothing.value_or(0) != 0 || layer.context_gate.value_or(0) != 0 ||
           layer.capacity_factor.value_or(0) != 0;
  });
}

}  // namespace soli
