#pragma once

#include <cstdint>

#include "model/kv_layout.h"
#include "model/model.h"
#include "model/workspace.h"
#include "ops/context.h"
#include "ops/rope.h"

namespace soli {

/// What all sequences of an engine share: where their keys and values lie, and how their positions rotate.
struct SequenceLayout {
  KvLayout kv;
  Rope rope;
};

/// The attention sub-layers of one step. Borrows everything; lives as long as the step.
class AttentionStep {
 public:
  /// Computes the rotations of the workspace's positions, once for all layers.
  AttentionStep(const Model& model, const SequenceLayout& layout, OpContext& context, Workspace& workspace,
                int64_t n_rows);

  /// From Workspace::kNormed to kSublayer; writes the rows' keys and values to their pages.
  void run(int64_t layer);

 private:
  using Buffer = Workspace::Buffer;

  /// What lies between projections and the output projection: queries, keys and values of the layer.
  struct Inputs {
    MatrixView<float> q;        // [rows][n_heads * head_dim]
    MatrixView<float> k;        // [rows][n_kv_heads * head_dim]
    MatrixView<const float> v;  // [rows][n_kv_heads * value_dim]
  };

  MatrixView<float> view(Buffer buffer) { return workspace_.view(buffer, n_rows_); }
  Inputs project(const LayerWeights& weights);
  Inputs project_latent(const LayerWeights& weights);
  MatrixView<float> project_queries(const LayerWeights& weights);
  MatrixView<const float> values_of_heads(const LayerWeights& weights, MatrixView<float> mixed);

  const Model& model_;
  const ModelSpec& spec_;
  const SequenceLayout& layout_;
  OpContext& context_;
  Workspace& workspace_;
  const int64_t n_rows_;
  const float epsilon_;
};

}  // namespace soli
