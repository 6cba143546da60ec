#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "model/batch.h"
#include "model/choice_limits.h"
#include "model/spec.h"
#include "ops/context.h"

namespace soli {

/// The experts that the rows of a batch chose in one layer: ragged, since k may differ from row to row.
/// Slot s (an index into ids and weights) is one call of one expert by one row; within a row, in order of
/// falling score.
struct Choice {
  std::vector<int32_t> row_begin;  // [rows + 1]: slots of row r are [row_begin[r], row_begin[r + 1])
  std::vector<int32_t> ids;        // [slots] expert
  std::vector<float> weights;      // [slots] routing weight

  int64_t n_rows() const { return static_cast<int64_t>(row_begin.size()) - 1; }
  int64_t n_slots() const { return static_cast<int64_t>(ids.size()); }
  std::span<const int32_t> ids_of(int64_t row) const;
  std::span<const float> weights_of(int64_t row) const;
};

/// Scores from logits by the model's own rule, [rows][n_experts]: softmax over all, or a sigmoid per expert;
/// for kSoftmaxChosen the softmax over all too (only the weights of the chosen come from a softmax of their
/// own).
void router_scores(OpContext& context, const RouterSpec& spec, MatrixView<const float> logits,
                   MatrixView<float> scores);

/// What moves the choice, and not the weights.
struct Selection {
  std::span<const float> bias = {};  // [n_experts] or empty: added to the score, by the model's own rule
  /// [n_experts] or empty: 1 where an expert is preferred, which is lossy: its score counts `preference`
  /// times (a logit that is chosen by gains ln preference, the same for its probability). Groups of experts
  /// are chosen without. So no expert goes before one that is `preference` times as probable.
  std::span<const uint8_t> preferred = {};
  float preference = 1;
  int64_t layer = 0;                   // among all layers: whose part of the rows' steering holds
  OverflowCounts* overflow = nullptr;  // added to, where somebody counts
};

/// Scores of one row of logits.
void score_row(const kernels::KernelTable& kernels, const RouterSpec& spec, const float* logits,
               float* scores);

/// Chooses and weighs, as the rows' policies and steering ask. Where a steering limits capacity, the choice
/// is written to the row's steering state, and those of the rows before it are read there. Ties go to the
/// lower id. A row whose logits are not finite gets no experts and `row_failed[row] = true`; no other row
/// notices.
void select_experts(OpContext& context, const RouterSpec& spec, const Selection& selection,
                    std::span<const BatchRow> rows, MatrixView<const float> logits,
                    MatrixView<const float> scores, Choice& choice, std::span<uint8_t> row_failed);

/// Checks a choice that a control has edited: ids in range and distinct within a row, finite weights, whole
/// rows. Fails the process: a control is part of soli.
void check_choice(const RouterSpec& spec, const Choice& choice, int64_t n_rows);

}  // namespace soli
