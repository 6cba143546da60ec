#include "model/attention_step.h"

#include <algorithm>
#include <array>

#include "ops/attention.h"
#include "ops/attention_inputs.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace soli {
namespace {

/// A part of every head of a matrix [rows][n_heads * head_dim], as [rows * n_heads][n].
template <typename T>
MatrixView<T> part_of_heads(MatrixView<T> x, int64_t head_dim, int64_t first, int64_t n) {
  return {x.data + first, x.rows * (x.cols / head_dim), n, head_dim};
}

}  // namespace

AttentionStep::AttentionStep(const Model& model, const SequenceLayout& layout, OpContext& context,
                             Workspace& workspace, int64_t n_rows)
    : model_(model),
      spec_(model.spec()),
      layout_(layout),
      context_(context),
      workspace_(workspace),
      n_rows_(n_rows),
      epsilon_(static_cast<float>(spec_.norm_epsilon)) {
  fill_rotations(context_, layout_.rope, workspace_.positions, view(Buffer::kRotations));
}

void AttentionStep::run(int64_t layer) {
  const LayerWeights& weights = model_.layer(layer);
  const auto [q, k, v] = spec_.is_latent() ? project_latent(weights) : project(weights);
  const AttentionParams params = {.shape = layout_.kv.shape,
                                  .layer_offset = layout_.kv.layer_offset(layer),
                                  .n_heads = spec_.n_heads,
                                  .scale = static_cast<float>(spec_.effective_attention_scale()),
                                  .window = spec_.has_window(layer) ? spec_.sliding_window : 0,
                                  .sinks = weights.sinks};
  const QueryKeyTransform transform = {.q_norm = weights.q_norm,
                                       .k_norm = weights.k_norm,
                                       .epsilon = epsilon_,
                                       .norm_after_rope = spec_.norm_after_rope,
                                       .rope = layout_.rope,
                                       .rotations = view(Buffer::kRotations)};
  transform_and_store(context_, params, transform, workspace_.attention_rows, q, k, v);
  const MatrixView<float> mixed = view(Buffer::kMixed);
  attention(context_, params, workspace_.attention_rows, q, mixed);
  linear(context_, weights.o, spec_.is_latent() ? values_of_heads(weights, mixed) : mixed,
         view(Buffer::kSublayer));
}

AttentionStep::Inputs AttentionStep::project(const LayerWeights& weights) {
  const std::array<const Linear*, 3> maps = {&weights.q, &weights.k, &weights.v};
  const std::array<MatrixView<float>, 3> outputs = {view(Buffer::kQuery), view(Buffer::kKey),
                                                    view(Buffer::kValue)};
  linear_group(context_, maps, view(Buffer::kNormed), outputs);
  return {outputs[0], outputs[1], outputs[2]};
}

/// Keys of a head are key_up^T of the latent vector, so that q . k = (key_up q) . latent, and values are
/// value_up of it: attention runs over the latent vectors themselves, with one kv head (DeepSeek-V2,
/// section 2.1.2).
AttentionStep::Inputs AttentionStep::project_latent(const LayerWeights& weights) {
  const MatrixView<float> head_q = project_queries(weights);
  const int64_t n_plain = spec_.latent_key_dim - spec_.rope_dims;
  const MatrixView<float> q = view(Buffer::kQuery);
  linear_per_head(context_, weights.key_up, part_of_heads(head_q, spec_.latent_key_dim, 0, n_plain),
                  part_of_heads(q, spec_.head_dim, 0, spec_.latent_rank));
  const auto rotated = part_of_heads(head_q, spec_.latent_key_dim, n_plain, spec_.rope_dims);
  const auto target = part_of_heads(q, spec_.head_dim, spec_.latent_rank, spec_.rope_dims);
  const MatrixView<float> k = view(Buffer::kKey);
  linear(context_, weights.latent_down, view(Buffer::kNormed), k);
  const RmsNorm norm = {weights.latent_norm, {}, epsilon_};
  context_.team.parallel_for(n_rows_, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = row * spec_.n_heads; head < (row + 1) * spec_.n_heads; ++head)
        std::copy_n(rotated.row(head), rotated.cols, target.row(head));
      norm.apply(context_.kernels, k.row(row), k.row(row));
    }
  });
  return {q, k, {k.data, n_rows_, spec_.latent_rank, k.stride}};
}

MatrixView<float> AttentionStep::project_queries(const LayerWeights& weights) {
  const MatrixView<float> q = view(Buffer::kHeadQuery);
  if (!weights.query_down) {
    linear(context_, weights.q, view(Buffer::kNormed), q);
    return q;
  }
  const MatrixView<float> latent = view(Buffer::kQueryLatent);
  linear(context_, weights.query_down, view(Buffer::kNormed), latent);
  rms_norm(context_, latent, {weights.query_latent_norm, {}, epsilon_}, latent);
  linear(context_, weights.query_up, latent, q);
  return q;
}

MatrixView<const float> AttentionStep::values_of_heads(const LayerWeights& weights, MatrixView<float> mixed) {
  const MatrixView<float> values = view(Buffer::kHeadMixed);
  linear_per_head(context_, weights.value_up, part_of_heads(mixed, spec_.value_dim, 0, spec_.value_dim),
                  part_of_heads(values, spec_.latent_value_dim, 0, spec_.latent_value_dim));
  return values;
}

}  // namespace soli
