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

struct Hooks {
  RouterControl* control = nullptr;
  RouterObserver* observer = nullptr;
  StepProbe* probe = nullptr;
};

}  // namespace soli
