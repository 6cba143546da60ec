#pragma once

#include <cstdint>

#include "model/batch.h"
#include "model/expert_executor.h"
#include "model/hooks.h"
#include "model/kv_layout.h"
#include "model/model.h"
#include "model/workspace.h"
#include "ops/context.h"

namespace soli {

/// One step of the model over a batch: writes the rows' keys and values to their pages and returns the logits
/// of the rows that want them, [wanted rows][vocab], in the order of the batch; valid until the next step on
/// this workspace. Where a row's values are not finite, workspace.row_failed says so and its logits mean
/// nothing; no other row notices. Fails only where experts cannot be had. Bits of a row depend on its own
/// sequence alone.
Result<MatrixView<const float>> forward(const Model& model, const Batch& batch, const KvLayout& kv,
                                        OpContext& context, Workspace& workspace, ExpertExecutor& experts,
                                        const Hooks& hooks);

}  // namespace soli
