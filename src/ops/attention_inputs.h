#pragma once

#include <span>

#include "base/matrix.h"
#include "ops/attention.h"
#include "ops/context.h"
#include "ops/rope.h"

namespace soli {

/// What queries and keys go through between their projections and attention.
struct QueryKeyTransform {
  // Weights of an RMS norm of each head, or of the whole row, by their number; empty: none.
  std::span<const float> q_norm;
  std::span<const float> k_norm;
  float epsilon = 0;
  bool norm_after_rope = false;
  const Rope& rope;
  MatrixView<const float> rotations;  // [rows], see fill_rotations
};

/// Normalises and rotates the rows' queries [rows][n_heads * head_dim] and keys [rows][n_kv_heads * head_dim]
/// in place, and writes keys and values [rows][n_kv_heads * value_dim] to their pages: one phase.
void transform_and_store(OpContext& context, const AttentionParams& params,
                         const QueryKeyTransform& transform, std::span<const AttentionRow> rows,
                         MatrixView<float> q, MatrixView<float> k, MatrixView<const float> v);

}  // namespace soli
