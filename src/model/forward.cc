#include "model/forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "ops/attention_inputs.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace soli {
namespace {

using Buffer = Workspace::Buffer;

/// One step at work. Names and shapes of the buffers: workspace.h.
class Step {
 public:
  Step(const Model& model, const Batch& batch, const KvLayout& kv, OpContext& context, Workspace& workspace,
       ExpertExecutor& experts, const Hooks& hooks)
      : model_(model),
        spec_(model.spec()),
        batch_(batch),
        kv_(kv),
        context_(context),
        workspace_(workspace),
        experts_(experts),
        hooks_(hooks),
        n_rows_(batch.n_rows()) {
    SOLI_CHECK(n_rows_ <= workspace.limits().max_rows, "{} rows", n_rows_);
    workspace_.row_failed.assign(batch.rows.size(), 0);
    workspace_.positions.clear();
    workspace_.attention_rows.clear();
    for (const BatchRow& row : batch.rows) {
      workspace_.positions.push_back(row.position);
      workspace_.attention_rows.push_back({row.position, row.pages});
    }
  }

  Result<StepOutput> run() {
    if (hooks_.probe != nullptr) hooks_.probe->on_batch(batch_);
    embed();
    enter(Phase::kAttention);
    fill_rotations(context_, model_.rope(), workspace_.positions, view(Buffer::kRotations));
    rms_norm(context_, view(Buffer::kHidden), model_.layer(0).attention_norm, epsilon(),
             view(Buffer::kNormed));
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      const LayerWeights& weights = model_.layer(layer);
      attend(layer, weights);
      add_sublayer_and_norm(weights.ffn_norm);
      SOLI_RETURN_IF_ERROR(feed_forward(layer, weights));
      const bool last = layer + 1 == spec_.n_layers;
      enter(last ? Phase::kHead : Phase::kAttention);
      if (!last) add_sublayer_and_norm(model_.layer(layer + 1).attention_norm);
    }
    add(context_, view(Buffer::kHidden), view(Buffer::kSublayer), view(Buffer::kHidden));
    const StepOutput computed = output();
    enter(Phase::kOther);
    return computed;
  }

 private:
  void enter(Phase phase) {
    if (hooks_.probe != nullptr) hooks_.probe->enter(phase);
  }

  MatrixView<float> view(Buffer buffer, int64_t cols = 0) { return workspace_.view(buffer, n_rows_, cols); }

  void embed() {
    const MatrixView<float> hidden = view(Buffer::kHidden);
    context_.team.parallel_for(n_rows_, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        dequantize_row(model_.global().token_embedding.weight, batch_.rows[static_cast<size_t>(row)].token,
                       {hidden.row(row), static_cast<size_t>(hidden.cols)});
      }
    });
  }

  /// hidden += sub-layer's output; normed = the next sub-layer's input.
  void add_sublayer_and_norm(std::span<const float> weight) {
    add_and_norm(context_, view(Buffer::kHidden), view(Buffer::kSublayer), weight, epsilon(),
                 view(Buffer::kNormed));
  }

  void attend(int64_t layer, const LayerWeights& weights) {
    const MatrixView<float> q = view(Buffer::kQuery);
    const MatrixView<float> k = view(Buffer::kKey);
    const MatrixView<float> v = view(Buffer::kValue);
    const std::array<const Linear*, 3> maps = {&weights.q, &weights.k, &weights.v};
    const std::array<MatrixView<float>, 3> outputs = {q, k, v};
    linear_group(context_, maps, view(Buffer::kNormed), outputs);
    const AttentionParams params = {.shape = kv_.shape,
                                    .layer_offset = kv_.layer_offset(layer),
                                    .n_heads = spec_.n_heads,
                                    .scale = 1.0F / std::sqrt(static_cast<float>(spec_.head_dim))};
    const QueryKeyTransform transform = {.q_norm = weights.q_norm,
                                         .k_norm = weights.k_norm,
                                         .epsilon = epsilon(),
                                         .rope = model_.rope(),
                                         .rotations = view(Buffer::kRotations)};
    transform_and_store(context_, params, transform, workspace_.attention_rows, q, k, v);
    const MatrixView<float> mixed = view(Buffer::kMixed);
    attention(context_, params, workspace_.attention_rows, q, mixed);
    linear(context_, weights.o, mixed, view(Buffer::kSublayer));
  }

  Status feed_forward(int64_t layer, const LayerWeights& weights) {
    if (!spec_.is_moe_layer(layer)) {
      enter(Phase::kExperts);
      gated_ffn(weights.ffn_gate, weights.ffn_up, weights.ffn_down, view(Buffer::kSublayer));
      return {};
    }
    SOLI_RETURN_IF_ERROR(routed_experts(layer, weights));
    if (weights.shared_down) shared_expert(weights);
    return {};
  }

  void gated_ffn(const Linear& gate, const Linear& up, const Linear& down, MatrixView<float> out) {
    const MatrixView<float> gated = view(Buffer::kGate, gate.weight.rows);
    const MatrixView<float> upped = view(Buffer::kUp, up.weight.rows);
    const std::array<const Linear*, 2> maps = {&gate, &up};
    const std::array<MatrixView<float>, 2> outputs = {gated, upped};
    linear_group(context_, maps, view(Buffer::kNormed), outputs);
    activate_rows(context_, spec_.activation, gated, upped, gated);
    linear(context_, down, gated, out);
  }

  Status routed_experts(int64_t layer, const LayerWeights& weights) {
    enter(Phase::kRouter);
    const RouterView seen = route(layer, weights);
    enter(Phase::kExperts);
    Choice& choice = workspace_.choice;
    group_by_expert(choice.row_begin, choice.ids, spec_.router.n_experts, workspace_.grouped);
    if (hooks_.probe != nullptr) hooks_.probe->on_experts(layer, workspace_.grouped);
    const MatrixView<float> outputs = workspace_.view(Buffer::kExpertOutputs, choice.n_slots());
    SOLI_RETURN_IF_ERROR(experts_.run(context_, layer, workspace_.grouped, view(Buffer::kNormed), outputs));
    if (hooks_.control != nullptr) hooks_.control->edit_expert_outputs(seen, choice, outputs);
    combine_experts(context_, choice.row_begin, choice.ids, choice.weights, outputs, view(Buffer::kSublayer));
    return {};
  }

  /// The seam: gate, scores, choice, and the hooks between them.
  RouterView route(int64_t layer, const LayerWeights& weights) {
    MatrixView<float> input = view(Buffer::kNormed);
    RouterView seen = {.layer = layer,
                       .rows = batch_.rows,
                       .spec = &spec_.router,
                       .hidden = input,
                       .logits = {},
                       .scores = {}};
    if (hooks_.control != nullptr) {
      input = view(Buffer::kGateInput);
      std::copy_n(seen.hidden.data, n_rows_ * seen.hidden.cols, input.data);
      hooks_.control->edit_gate_input(seen, input);
      seen.hidden = input;
    }
    const MatrixView<float> logits = view(Buffer::kRouterLogits);
    linear(context_, weights.router, input, logits);
    seen.logits = logits;
    if (hooks_.control != nullptr) hooks_.control->edit_logits(seen, logits);
    const MatrixView<float> scores = view(Buffer::kScores);
    router_scores(context_, spec_.router, logits, scores);
    seen.scores = scores;
    select_experts(context_, spec_.router, weights.selection_bias, batch_.rows, logits, scores,
                   workspace_.choice, workspace_.row_failed);
    if (hooks_.control != nullptr) {
      hooks_.control->edit_choice(seen, workspace_.choice);
      check_choice(spec_.router, workspace_.choice, n_rows_);
    }
    if (hooks_.observer != nullptr) hooks_.observer->on_route(seen, workspace_.choice);
    return seen;
  }

  /// sub-layer += shared expert's output, times the sigmoid of its gate where it has one; after the routed
  /// experts.
  void shared_expert(const LayerWeights& weights) {
    const MatrixView<float> shared = view(Buffer::kShared);
    gated_ffn(weights.shared_gate, weights.shared_up, weights.shared_down, shared);
    const MatrixView<float> gate = view(Buffer::kSharedGate);
    if (weights.shared_router) {
      linear(context_, weights.shared_router, view(Buffer::kNormed), gate);
      context_.kernels.sigmoid(gate.data, n_rows_, gate.data);
    } else {
      std::fill_n(gate.data, n_rows_, 1.0F);
    }
    const MatrixView<float> out = view(Buffer::kSublayer);
    context_.team.parallel_for(n_rows_, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        context_.kernels.add_scaled(shared.row(row), gate.data[row], out.cols, out.row(row));
      }
    });
  }

  /// Last norm and output head, for the rows that want logits.
  StepOutput output() {
    std::vector<int64_t>& wanted = workspace_.wanted_rows;
    wanted.clear();
    for (int64_t row = 0; row < n_rows_; ++row) {
      if (batch_.rows[static_cast<size_t>(row)].want_logits) wanted.push_back(row);
    }
    const auto n_wanted = static_cast<int64_t>(wanted.size());
    const MatrixView<float> hidden = view(Buffer::kHidden);
    const MatrixView<float> gathered = workspace_.view(Buffer::kWanted, n_wanted);
    for (int64_t i = 0; i < n_wanted; ++i) {
      std::copy_n(hidden.row(wanted[static_cast<size_t>(i)]), hidden.cols, gathered.row(i));
    }
    rms_norm(context_, gathered, model_.global().output_norm, epsilon(), gathered);
    const MatrixView<float> logits = workspace_.view(Buffer::kLogits, n_wanted);
    linear(context_, model_.output(), gathered, logits);
    context_.team.parallel_for(n_wanted, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        if (context_.kernels.all_finite(logits.row(i), logits.cols)) continue;
        workspace_.row_failed[static_cast<size_t>(wanted[static_cast<size_t>(i)])] = 1;
      }
    });
    return {logits, gathered};
  }

  float epsilon() const { return static_cast<float>(spec_.norm_epsilon); }

  const Model& model_;
  const ModelSpec& spec_;
  const Batch& batch_;
  const KvLayout& kv_;
  OpContext& context_;
  Workspace& workspace_;
  ExpertExecutor& experts_;
  const Hooks& hooks_;
  const int64_t n_rows_;
};

}  // namespace

Result<StepOutput> forward(const Model& model, const Batch& batch, const KvLayout& kv, OpContext& context,
                           Workspace& workspace, ExpertExecutor& experts, const Hooks& hooks) {
  return Step(model, batch, kv, context, workspace, experts, hooks).run();
}

}  // namespace soli
