#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/slab.h"
#include "model/batch.h"
#include "model/expert_executor.h"
#include "model/hooks.h"
#include "model/model.h"
#include "ops/context.h"

namespace soli {

/// The buffers of a step, allocated once for the largest batch and charged as "activations". Pages become
/// resident as they are used. One per engine.
class Workspace {
 public:
  struct Limits {
    int64_t max_rows = 512;        // rows of a batch
    int64_t max_logit_rows = 128;  // rows of a batch that want logits
  };
  static Result<Workspace> create(const ModelSpec& spec, Budget& budget, const Limits& limits);

  const Limits& limits() const { return limits_; }

  // Views of the first `rows` (or `slots`) rows of each buffer.
  enum Buffer {
    kHidden,
    kNormed,
    kQuery,
    kKey,
    kValue,
    kMixed,
    kProjected,
    kGate,
    kUp,
    kFfnOut,
    kGateInput,
    kLogitsOfRouter,
    kScores,
    kExpertOutputs,
    kWanted,
    kLogits,
    kBuffers
  };
  MatrixView<float> view(Buffer buffer, int64_t rows);

  Choice choice;
  RowsByExpert grouped;
  std::vector<uint8_t> row_failed;  // [rows] of the last step: 1 where a value was not finite

 private:
  struct Region {
    int64_t offset_bytes = 0;
    int64_t rows = 0;
    int64_t cols = 0;
  };
  void plan(Buffer buffer, int64_t rows, int64_t cols);

  Limits limits_;
  Slab slab_;
  int64_t planned_bytes_ = 0;
  std::array<Region, kBuffers> regions_;
};

/// Bytes of one KV page (kKvPagePositions positions of one sequence, all layers), and where each layer's part
/// starts.
struct KvLayout {
  KvShape shape;
  int64_t page_bytes = 0;

  KvLayout(const ModelSpec& spec, KvType type);
  int64_t layer_offset(int64_t layer) const { return layer * shape.layer_page_bytes(); }
  /// KV bytes per position of a sequence.
  int64_t position_bytes() const { return page_bytes / kKvPagePositions; }
};

/// One step of the model over a batch: writes the rows' keys and values to their pages and returns the logits
/// of the rows that want them, [wanted rows][vocab], in the order of the batch; valid until the next step on
/// this workspace. Where a row's values are not finite, workspace.row_failed says so and its logits mean
/// nothing; no other row notices. Fails only where experts cannot be had. Bits of a row depend on its own
/// sequence alone.
Result<MatrixView<const float>> forward(const Model& model, const Batch& batch, const KvLayout& kv,
                                        OpContext& context, Workspace& workspace, ExpertExecutor& experts,
                                        const Hooks& hooks);

}  // namespace soli
