#pragma once

#include <cstdint>

#include "model/attention_step.h"
#include "model/batch.h"
#include "model/expert_executor.h"
#include "model/hooks.h"
#include "model/model.h"
#include "model/workspace.h"
#include "ops/context.h"

namespace soli {

/// What a step computed, in the order of the batch; valid until the next step on the workspace. Hidden states
/// are those after the last norm, which the output head multiplies.
struct StepOutput {
  MatrixView<const float> logits;       // [rows that want logits][vocab]
  MatrixView<const float> hidden;       // [rows that want logits][hidden]
  MatrixView<const float> only_hidden;  // [rows that want_hidden][hidden]
};

/// One step of the model over a batch: writes the rows' keys and values to their pages and computes the rows
/// that want logits. Where a row's values are not finite, workspace.row_failed says so and its output means
/// nothing; no other row notices. Fails only where experts cannot be had. Bits of a row depend on its own
/// sequence alone.
Result<StepOutput> forward(const Model& model, const Batch& batch, const SequenceLayout& layout,
                           OpContext& context, Workspace& workspace, ExpertExecutor& experts,
                           const Hooks& hooks);

}  // namespace soli
