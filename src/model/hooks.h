#pragma once

// The seam at the router, and who else looks on. Hooks are always compiled in: without one it costs a null
// test per layer, or per change of phase.

#include <cstdint>
#include <span>

#include "base/matrix.h"
#include "model/batch.h"
#include "model/router.h"
#include "model/step_probe.h"

namespace soli {

/// What a hook sees of one layer in one step. Valid during the call only.
struct RouterView {
  int64_t layer = 0;               // among all layers
  std::span<const BatchRow> rows;  // whose request, position and policy
  const RouterSpec* spec = nullptr;
  MatrixView<const float> residual;  // [rows][hidden] the residual stream, before this layer's experts
  MatrixView<const float> hidden;    // [rows][hidden] what enters the gate
  MatrixView<const float> logits;    // [rows][n_experts]; empty before the gate
  MatrixView<const float> scores;    // [rows][n_experts]; empty before the choice
};

/// A policy: may change what the router does. Called on the engine's thread, between ops. Its state belongs
/// to the sequences, whose rows it can tell by their request.
class RouterControl {
 public:
  virtual ~RouterControl() = default;
  /// Before the gate: `hidden` is a copy that enters the gate only, not the experts.
  virtual void edit_gate_input(const RouterView& view, MatrixView<float> hidden) = 0;
  virtual void edit_logits(const RouterView& view, MatrixView<float> logits) = 0;
  /// The choice is checked afterwards: ids in range and distinct within a row, weights finite.
  virtual void edit_choice(const RouterView& view, Choice& choice) = 0;
  /// Unweighted outputs of the chosen experts, y[slot][hidden].
  virtual void edit_expert_outputs(const RouterView& view, const Choice& choice, MatrixView<float> y) = 0;
};

/// An observer: sees, and cannot change.
class RouterObserver {
 public:
  virtual ~RouterObserver() = default;
  virtual void on_route(const RouterView& view, const Choice& choice) = 0;
};

/// What an observer sees of one layer's feed-forward in one step, once it is computed. The layer adds
/// residual_scale * added to the residual stream. Valid during the call only.
struct FfnView {
  int64_t layer = 0;                 // among all layers
  std::span<const BatchRow> rows;    // whose request, position and policy
  MatrixView<const float> residual;  // [rows][hidden] the residual stream, before it
  float residual_scale = 1;
  MatrixView<const float> added;  // [rows][hidden] the sum of the weighted outputs below
  // Routed experts: null and empty in a dense layer.
  const Choice* choice = nullptr;
  MatrixView<const float> expert_outputs = {};  // [slots][hidden] unweighted
  MatrixView<const float> expert_inner = {};    // [slots][expert_width] as ExpertExecutor::inner()
  // What every token goes through: the shared experts, as one feed-forward, or that of a dense layer. Empty
  // where there is none.
  MatrixView<const float> common_outputs = {};  // [rows][hidden] unweighted
  MatrixView<const float> common_inner = {};    // [rows][width] activation(gate, up)
  MatrixView<const float> common_weights = {};  // [rows][1]; empty: all 1
};

/// Another observer. Called on the engine's thread, between ops; it may use the thread team with a context of
/// its own.
class FfnObserver {
 public:
  virtual ~FfnObserver() = default;
  virtual void on_ffn(const FfnView& view) = 0;
};

struct Hooks {
  RouterControl* control = nullptr;
  RouterObserver* observer = nullptr;
  StepProbe* probe = nullptr;
  FfnObserver* ffn = nullptr;
};

}  // namespace soli
