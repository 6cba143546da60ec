#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "ops/activations.h"
#include "ops/context.h"
#include "ops/elementwise.h"
#include "ops/expert_meter.h"
#include "ops/matmul.h"

namespace soli {

/// The weights of one routed expert, ready to multiply.
struct ExpertWeights {
  PackedMatrix gate;  // [expert_width][hidden]
  PackedMatrix up;    // [expert_width][hidden]
  PackedMatrix down;  // [hidden][expert_width]
  // Added to what the matrices give; empty: none.
  std::span<const float> gate_bias;  // [expert_width]
  std::span<const float> up_bias;    // [expert_width]
  std::span<const float> down_bias;  // [hidden]
  Activation activation = Activation::kSwiGlu;
};

/// The calls of one layer, grouped by expert: group g is the calls of experts[g], slots [begin[g], begin[g +
/// 1]) of `slots` and `rows`.
struct RowsByExpert {
  std::vector<int32_t> experts;     // [groups] distinct, ascending
  std::vector<int32_t> begin;       // [groups + 1]
  std::vector<int32_t> slots;       // [calls] slot of the choice, which names the output row
  std::vector<int32_t> rows;        // [calls] row of the batch, which names the input row
  std::vector<int32_t> next_place;  // [n_experts + 1] of the sort, kept to be reused

  int64_t n_groups() const { return static_cast<int64_t>(experts.size()); }
};

/// Groups calls by expert with one counting sort, stable in the order of slots. `ids` is [slots] in [0,
/// n_experts); row r owns slots [row_begin[r], row_begin[r + 1]). `grouped` is filled, its memory reused.
void group_by_expert(std::span<const int32_t> row_begin, std::span<const int32_t> ids, int64_t n_experts,
                     RowsByExpert& grouped);

/// The weights for one group of calls, borrowed from a store for the time of a wave.
struct ExpertLease {
  int64_t group = 0;  // index into RowsByExpert::experts
  ExpertWeights weights;
};

/// The routed experts of a layer at work, in as many waves as their weights come in: y[slot] =
/// down(activation(gate(x[row]), up(x[row]))), biases added. Unweighted. Each expert's weights are read once
/// for all its rows, and what enters them is converted once for all waves: no other op may use the context
/// meanwhile.
class MoeFfn {
 public:
  /// All borrowed. x is [rows][hidden], h is scratch of [slots][expert_width], y is [slots][hidden]. What the
  /// experts do is counted into `meter`.
  MoeFfn(OpContext& context, const RowsByExpert& grouped, MatrixView<const float> x, MatrixView<float> h,
         MatrixView<float> y, ExpertMeter::Layer meter = {})
      : context_(context), grouped_(grouped), x_(x), h_(h), y_(y), meter_(meter) {}

  /// Fills y[slot] for the calls of the leased experts' groups; other slots' y stays as it is.
  void run(std::span<const ExpertLease> leases);

 private:
  const Activations& inputs(std::span<const ExpertLease> leases);
  RowList slots_of(std::span<const ExpertLease> leases);
  void count_calls(std::span<const ExpertLease> leases) const;

  OpContext& context_;
  const RowsByExpert& grouped_;
  const MatrixView<const float> x_;
  const MatrixView<float> h_;
  const MatrixView<float> y_;
  const ExpertMeter::Layer meter_;
  FormSet input_forms_;
  std::optional<Activations> inputs_;  // in input_forms_
};

/// out[row] = sum of weights[slot] * y[slot] over the row's slots in ascending expert id, whatever order and
/// thread computed them. out is [rows][hidden].
void combine_experts(OpContext& context, std::span<const int32_t> row_begin, std::span<const int32_t> ids,
                     std::span<const float> weights, MatrixView<const float> y, MatrixView<float> out);

}  // namespace soli
