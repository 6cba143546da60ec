#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "model/routing_policy.h"
#include "model/spec.h"
#include "model/steering_state.h"

namespace soli {

/// A policy's controls in one layer of a model.
struct LayerSteering {
  int64_t moe_layer = -1;  // among the layers with experts; -1: it has none, and nothing below means anything
  int64_t k = 0;           // experts of a token at most
  int64_t k_min = 1;
  double relative_threshold = 0;
  double cumulative_probability = 1;
  double temperature = 1;
  double noise = 0;
  double smoothing = 0;
  double context_gate = 0;
  double input_clamp = 0;
  int64_t capacity = 0;              // calls of an expert in a window; 0: no limit
  std::vector<uint8_t> masked = {};  // [n_experts], 1 for the masked ones; or empty
  std::vector<int32_t> forced = {};
  std::vector<float> bias = {};  // [n_experts] or empty

  bool looks_back() const { return smoothing != 0 || context_gate != 0; }
  /// Whether scores are others than the gate and the model's rule give.
  bool edits_scores() const {
    return temperature != 1 || noise != 0 || !masked.empty() || !bias.empty() || looks_back();
  }
};

/// A policy as one model carries it out: checked, and with its parts for every layer. Immutable, for any
/// number of requests and threads.
class Steering {
 public:
  /// `most_k`: experts per token that may be asked for, where that is less than the model can do; the model's
  /// own k may always be. Fails with kInvalidArgument for what the model cannot do, naming control and layer:
  /// more experts than there are or than are not masked, ids out of range, all experts masked, more forced
  /// than k, one that is forced and masked, layers that there are not or that have no experts, a number out
  /// of its range. Null for a policy that has_steering() denies.
  static Result<std::shared_ptr<const Steering>> create(const RoutingPolicy& policy, const ModelSpec& spec,
                                                        int64_t most_k);

  const LayerSteering& layer(int64_t layer) const { return layers_[static_cast<size_t>(layer)]; }
  const SteeringLayout& layout() const { return layout_; }
  uint64_t noise_seed() const { return noise_seed_; }
  int64_t context_gate_tokens() const { return context_gate_tokens_; }
  int64_t capacity_window() const { return capacity_window_; }
  Overflow overflow() const { return overflow_; }
  /// Whether its rows need steering state beside their KV pages.
  bool is_stateful() const { return is_stateful_; }

 private:
  Steering(const RoutingPolicy& policy, const ModelSpec& spec);

  SteeringLayout layout_;
  std::vector<LayerSteering> layers_;
  uint64_t noise_seed_;
  int64_t context_gate_tokens_;
  int64_t capacity_window_;
  Overflow overflow_;
  bool is_stateful_;
};

/// The same routing, said with less: the model's own number of experts is 0, and parts that set nothing are
/// gone. So a policy that changes nothing but these is_exact(). After create() has found nothing wrong.
RoutingPolicy simplified(RoutingPolicy policy, const RouterSpec& router);

}  // namespace soli
