#pragma once

#include <cstdint>
#include <string_view>

#include "model/batch.h"
#include "ops/moe_ffn.h"

namespace soli {

/// What a step's time is spent on.
enum class Phase {
  kAttention,  // norms of the layer and additions before them, q, k and v, RoPE, keys and values, attention,
               // output projection
  kRouter,     // gate, scores, choice
  kExperts,    // the feed-forward: grouping, routed and shared experts, combining; the one of a dense layer
  kHead,       // last addition, last norm and output head
  kOther,      // planning, embedding, sampling, delivery
};
inline constexpr int kPhases = 5;

constexpr std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[kPhases] = {"attention", "router", "experts", "head", "other"};
  return kNames[static_cast<int>(phase)];
}

/// Told where the time of each step goes and what it computes. Called on the engine's thread, between ops.
class StepProbe {
 public:
  virtual ~StepProbe() = default;
  /// A step begins, in kOther. One that turns out to have nothing to do does not end.
  virtual void begin_step() = 0;
  /// The step's rows; once per step.
  virtual void on_batch(const Batch& batch) = 0;
  /// From here on the step is in `phase`.
  virtual void enter(Phase phase) = 0;
  /// The calls of a layer's routed experts.
  virtual void on_experts(int64_t layer, const RowsByExpert& grouped) = 0;
  virtual void end_step() = 0;
};

}  // namespace soli
