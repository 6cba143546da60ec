#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "model/batch.h"
#include "model/spec.h"
#include "ops/context.h"

namespace soli {

/// The rows of a step that are steered, found once for all its layers. Costs nothing where there are none.
/// docs/steering.md has the order and the formulas of what it does.
class Steer {
 public:
  /// Finds the rows; borrowed, as are those of every call below: the same ones.
  void begin_step(std::span<const BatchRow> rows);

  /// Whether some row's input of the gate is limited in this layer.
  bool clamps(int64_t layer) const;
  /// Limits the magnitude of what enters the gate, [rows][hidden], a copy.
  void clamp(OpContext& context, int64_t layer, MatrixView<float> gate_input) const;
  /// From the gate's logits and the scores that the model's rule makes of them, both [rows][n_experts], to
  /// those that the steered rows are to choose by. Leaves other rows alone, and those that are not finite.
  void edit_scores(OpContext& context, const RouterSpec& spec, int64_t layer, MatrixView<float> logits,
                   MatrixView<float> scores) const;

 private:
  std::span<const BatchRow> rows_;
  /// Rows that must come one after the other: [begins_[i], begins_[i + 1]), all of them steered or none.
  std::vector<int64_t> begins_;
  bool any_ = false;
};

/// A number of the normal distribution N(0, 1), which is a function of its arguments (Box, Muller 1958).
double steering_noise(uint64_t seed, int64_t position, int64_t layer, int64_t expert);

}  // namespace soli
