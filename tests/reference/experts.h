#pragma once

// Feed-forwards: dense, routed, shared; and the router.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "reference/family_rules.h"
#include "reference/tensor_file.h"

namespace soli::reference {

/// The experts of one token in one layer, with their routing weights.
using Choice = std::map<int32_t, double>;

struct RouterSpec {
  int64_t n_experts = 0;
  int64_t experts_per_token = 0;
  Gating gating = Gating::kSoftmax;  // one of the first three
  bool renormalise = false;
  double weight_scale = 1;
  int64_t n_groups = 1;
  int64_t n_groups_used = 1;
  bool clamped_activation = false;  // of the experts
};

RouterSpec router_spec(const TensorFile& file, const FamilyRules& rules);

/// Chooses for one token. Ties go to the lower id. `preferred` is what somebody else chose, or null: experts
/// in it gain 1e-5 of the largest score, so that two choices that differ within rounding are one.
Choice route(const TensorFile& file, const RouterSpec& spec, int64_t layer, const Vector& x,
             const Choice* preferred);

/// What one feed-forward makes of its input.
struct FfnWork {
  Vector inner;   // activation(gate, up)
  Vector output;  // unweighted
};
FfnWork work_of_expert(const TensorFile& file, const RouterSpec& spec, int64_t layer, int64_t expert,
                       const Vector& x);
/// Of the shared experts as one; empty where there are none.
FfnWork work_of_shared(const TensorFile& file, int64_t layer, const Vector& x);
/// The factor on their output.
double shared_weight(const TensorFile& file, int64_t layer, const Vector& x);
/// Of a dense layer.
FfnWork work_of_dense(const TensorFile& file, int64_t layer, const Vector& x);

/// The routed experts' outputs, weighted and summed.
Vector routed_experts(const TensorFile& file, const RouterSpec& spec, int64_t layer, const Choice& choice,
                      const Vector& x);
/// The shared expert's output, behind its gate if it has one; empty without a shared expert.
Vector shared_expert(const TensorFile& file, int64_t layer, const Vector& x);
/// The feed-forward of a dense layer.
Vector dense_ffn(const TensorFile& file, int64_t layer, const Vector& x);

}  // namespace soli::reference
