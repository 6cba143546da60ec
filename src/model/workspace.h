#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/matrix.h"
#include "base/slab.h"
#include "model/router.h"
#include "model/spec.h"
#include "model/steer.h"
#include "ops/attention.h"
#include "ops/moe_ffn.h"

namespace soli {

/// The buffers of a step, planned for the largest batch and charged as "activations". Pages become resident
/// as they are used. One per engine.
class Workspace {
 public:
  struct Limits {
    int64_t max_rows = 512;             // rows of a batch
    int64_t max_logit_rows = 128;       // rows of a batch that want logits
    int64_t max_experts_per_token = 0;  // that a policy may choose; 0: the model's k

    int64_t max_slots(const ModelSpec& spec) const {
      return max_rows * std::max(max_experts_per_token, spec.router.experts_per_token);
    }
  };
  enum Buffer {
    kHidden,         // [rows][hidden] the residual stream
    kNormed,         // [rows][hidden]
    kQuery,          // [rows][n_heads * head_dim]
    kKey,            // [rows][n_kv_heads * head_dim]
    kValue,          // [rows][n_kv_heads * value_dim]
    kRotations,      // [rows][rotated elements of a head] of the step's positions
    kMixed,          // [rows][n_heads * value_dim] output of attention
    kQueryLatent,    // [rows][latent_query_rank]
    kHeadQuery,      // [rows][n_heads * latent_key_dim] queries before keys' weights are folded in
    kHeadMixed,      // [rows][n_heads * latent_value_dim] output of attention, as values of the heads
    kSublayer,       // [rows][hidden] what a sub-layer adds
    kGate,           // [rows][widest dense or shared feed-forward]
    kUp,             // the same
    kShared,         // [rows][hidden] output of the shared expert
    kSharedGate,     // [rows][1]
    kGateInput,      // [rows][hidden] the router's input where a control may edit it
    kRouterLogits,   // [rows][n_experts]
    kScores,         // [rows][n_experts]
    kExpertOutputs,  // [slots][hidden]
    kWanted,         // [logit rows][hidden]
    kLogits,         // [logit rows][vocab]
    kBuffers
  };

  static Result<Workspace> create(const ModelSpec& spec, Budget& budget, const Limits& limits);
  /// What create() would charge.
  static int64_t bytes_needed(const ModelSpec& spec, const Limits& limits);

  const Limits& limits() const { return limits_; }
  /// The first `rows` rows of a buffer. kGate and kUp are as wide as `cols` says, the others as planned.
  MatrixView<float> view(Buffer buffer, int64_t rows, int64_t cols = 0);

  Choice choice;                             // of the layer at work
  RowsByExpert grouped;                      // the same, by expert
  std::vector<int64_t> positions;            // [rows]
  std::vector<AttentionRow> attention_rows;  // [rows]
  std::vector<int64_t> wanted_rows;          // rows that want logits
  Steer steer;                               // of the step
  OverflowCounts overflow;                   // of all steps so far
  std::vector<uint8_t> row_failed;           // [rows] of the last step: 1 where a value was not finite

 private:
  struct Region {
    int64_t offset = 0;  // floats
    int64_t rows = 0;
    int64_t cols = 0;
  };
  using Regions = std::array<Region, kBuffers>;
  static Regions plan(const ModelSpec& spec, const Limits& limits, int64_t& n_floats);

  Limits limits_;
  Slab slab_;
  Regions regions_;
};

}  // namespace soli
