#pragma once

#include <cstdint>

#include "base/matrix.h"
#include "base/result.h"
#include "ops/moe_ffn.h"

namespace soli {

class RouterControl;
class RouterObserver;

/// Computes the routed experts of a layer, wherever they live. What the forward calls; implemented in
/// experts/.
class ExpertExecutor {
 public:
  virtual ~ExpertExecutor() = default;
  /// y[slot] = the unweighted output of the slot's expert for its row of x. x is [rows][hidden], y is
  /// [slots][hidden]. Fails when an expert's weights cannot be had (kIo).
  virtual Status run(OpContext& context, int64_t layer, const RowsByExpert& grouped,
                     MatrixView<const float> x, MatrixView<float> y) = 0;
  /// What the last run() had within the experts: h[slot] = activation(gate(x), up(x)), [slots][expert_width].
  /// Valid until the next one. Empty where experts are computed elsewhere.
  virtual MatrixView<const float> inner() const { return {}; }
  /// Who wants to see each layer's routing before its experts run, so as to fetch ahead; null: nobody.
  virtual RouterObserver* observer() { return nullptr; }
  /// Who moves each layer's choice towards experts that are cheaper to have, which is lossy; asked to
  /// edit_choice() only. Null, unless somebody asked for it: the model's own choice.
  virtual RouterControl* control() { return nullptr; }
};

}  // namespace soli
