#include "model/workspace.h"

#include "base/check.h"

namespace soli {
namespace {

constexpr int64_t kAlignmentFloats = 16;

}  // namespace

Workspace::Regions Workspace::plan(const ModelSpec& spec, const Limits& limits, int64_t& n_floats) {
  Regions regions;
  n_floats = 0;
  const auto add = [&](Buffer buffer, int64_t rows, int64_t cols) {
    regions[buffer] = {n_floats, rows, cols};
    n_floats += (rows * cols + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
  };
  const int64_t rows = limits.max_rows;
  for (const Buffer buffer : {kHidden, kNormed, kSublayer, kShared, kGateInput}) {
    add(buffer, rows, spec.hidden_size);
  }
  add(kQuery, rows, spec.n_heads * spec.head_dim);
  add(kKey, rows, spec.n_kv_heads * spec.head_dim);
  add(kValue, rows, spec.n_kv_heads * spec.value_dim);
  add(kRotations, rows, spec.rope_dims);
  add(kMixed, rows, spec.n_heads * spec.value_dim);
  if (spec.is_latent()) {
    add(kQueryLatent, rows, spec.latent_query_rank);
    add(kHeadQuery, rows, spec.n_heads * spec.latent_key_dim);
    add(kHeadMixed, rows, spec.n_heads * spec.latent_value_dim);
  }
  const int64_t n_dense_layers = spec.n_layers - spec.n_moe_layers();
  const int64_t width = std::max(n_dense_layers > 0 ? spec.ffn_width : 0, spec.shared_expert_width);
  add(kGate, rows, width);
  add(kUp, rows, width);
  add(kSharedGate, rows, 1);
  add(kRouterLogits, rows, spec.router.n_experts);
  add(kScores, rows, spec.router.n_experts);
  add(kExpertOutputs, limits.max_slots(spec), spec.hidden_size);
  add(kWanted, limits.max_logit_rows, spec.hidden_size);
  add(kLogits, limits.max_logit_rows, spec.vocab_size);
  return regions;
}

int64_t Workspace::bytes_needed(const ModelSpec& spec, const Limits& limits) {
  int64_t n_floats = 0;
  plan(spec, limits, n_floats);
  return n_floats * static_cast<int64_t>(sizeof(float));
}

Result<Workspace> Workspace::create(const ModelSpec& spec, Budget& budget, const Limits& limits) {
  SOLI_CHECK(limits.max_rows >= 1 && limits.max_logit_rows >= 1);
  Workspace workspace;
  int64_t n_floats = 0;
  workspace.limits_ = limits;
  workspace.regions_ = plan(spec, limits, n_floats);
  SOLI_ASSIGN_OR_RETURN(
      workspace.slab_, Slab::allocate(budget, "activations", n_floats * static_cast<int64_t>(sizeof(float))));
  return workspace;
}

MatrixView<float> Workspace::view(Buffer buffer, int64_t rows, int64_t cols) {
  const Region& region = regions_[buffer];
  if (cols == 0) cols = region.cols;
  SOLI_CHECK(rows <= region.rows && cols <= region.cols, "buffer {}: {} x {}", static_cast<int>(buffer), rows,
             cols);
  return {reinterpret_cast<float*>(slab_.data()) + region.offset, rows, cols};
}

}  // namespace soli
