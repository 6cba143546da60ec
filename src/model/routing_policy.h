#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace soli {

/// What is added to the router logit of an expert.
struct ExpertBias {
  int32_t expert = 0;
  double bias = 0;

  bool operator==(const ExpertBias&) const = default;
};

/// Where a call goes whose expert has no room left.
enum class Overflow {
  kNext,  // to the next best expert that has room
  kDrop,  // nowhere: the token has an expert less
};

/// What holds in some layers in place of what a policy says for all.
struct LayerPolicy {
  int64_t first_layer = 0;  // counted among all layers of the model, those without experts included
  int64_t last_layer = 0;
  std::optional<int64_t> experts_per_token = {};
  std::optional<double> relative_threshold = {};
  std::optional<int64_t> k_min = {};
  std::optional<double> cumulative_probability = {};
  std::optional<double> temperature = {};
  std::optional<std::vector<int32_t>> mask = {};
  std::optional<std::vector<int32_t>> force = {};
  std::optional<std::vector<ExpertBias>> bias = {};
  std::optional<double> noise = {};
  std::optional<double> smoothing = {};
  std::optional<double> context_gate = {};
  std::optional<double> input_clamp = {};
  std::optional<double> capacity_factor = {};

  bool operator==(const LayerPolicy&) const = default;
};

/// How a request steers its own routing, as it was asked for; model/steering.h is what a model makes of it.
/// The default is the model's own rule; everything else is lossy and says so. docs/steering.md has the
/// formulas and the order in which the controls act.
struct RoutingPolicy {
  int64_t experts_per_token = 0;  // 0: the model's k; else at most this many
  double relative_threshold =
      0;  // beyond the best k_min, keep expert e only if p_e > threshold * p_max; 0 keeps all k
  int64_t k_min = 1;
  /// Beyond the best k_min, keep the best until their probabilities sum to this; 1 keeps all k.
  double cumulative_probability = 1;
  double temperature = 1;             // divides the router logits
  std::vector<int32_t> mask = {};     // ascending ids of experts that are never chosen
  std::vector<int32_t> force = {};    // ascending ids of experts that are always chosen, and count towards k
  std::vector<ExpertBias> bias = {};  // ascending ids; on the logits: moves the choice and the weights
  double noise = 0;                   // standard deviation of what is added to the logits
  int64_t noise_seed = 0;             // one seed and position have one noise
  double smoothing = 0;               // a of p'_t = (1 - a) p_t + a p'_(t-1)
  double context_gate = 0;            // on the mean scores of the preceding tokens, added to the logits
  int64_t context_gate_tokens = 16;   // how many of them
  double input_clamp = 0;             // largest magnitude of what enters the gate; 0: no limit
  double capacity_factor = 0;         // of what an expert's share of a window would be; 0: no limit
  int64_t capacity_window = 64;       // consecutive positions of a sequence
  Overflow overflow = Overflow::kNext;   // of calls beyond the capacity
  std::vector<LayerPolicy> layers = {};  // a later one goes before an earlier one

  bool operator==(const RoutingPolicy&) const = default;
  bool is_exact() const { return *this == RoutingPolicy{}; }
  /// Whether there is more than a number of experts and a relative threshold for all layers.
  bool has_steering() const;
  /// Part of the prefix cache's key: keys and values depend on the routing of earlier layers.
  uint64_t hash() const;
  /// The most experts per token that it asks for in any layer; 0: the model's k.
  int64_t most_experts_per_token() const;
  /// Whether a token's routing depends on that of the tokens before it.
  bool is_stateful() const;
};

}  // namespace soli
