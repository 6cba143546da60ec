#include "model/forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "model/attention_step.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace soli {
namespace {

using Buffer = Workspace::Buffer;

/// One step at work. Names and shapes of the buffers: workspace.h.
class Step {
 public:
  Step(const Model& model, const Batch& batch, const SequenceLayout& layout, OpContext& context,
       Workspace& workspace, ExpertExecutor& experts, const Hooks& hooks)
      : model_(model),
        spec_(model.spec()),
        batch_(batch),
        layout_(layout),
        context_(context),
        workspace_(workspace),
        experts_(experts),
        hooks_(hooks),
        n_rows_(batch.n_rows()) {
    SOLI_CHECK(n_rows_ <= workspace.limits().max_rows, "{} rows", n_rows_);
    workspace_.row_failed.assign(batch.rows.size(), 0);
    workspace_.steer.begin_step(batch.rows);
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
    AttentionStep attention(model_, layout_, context_, workspace_, n_rows_);
    rms_norm(context_, view(Buffer::kHidden), attention_norm(0), view(Buffer::kNormed));
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      const LayerWeights& weights = model_.layer(layer);
      attention.run(layer);
      add_sublayer_and_norm({weights.ffn_norm, weights.ffn_norm_bias, epsilon()});
      SOLI_RETURN_IF_ERROR(feed_forward(layer, weights));
      const bool last = layer + 1 == spec_.n_layers;
      enter(last ? Phase::kHead : Phase::kAttention);
      if (!last) add_sublayer_and_norm(attention_norm(layer + 1));
    }
    add_scaled(context_, view(Buffer::kHidden), residual_scale(), view(Buffer::kSublayer));
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
    scale_rows(context_, static_cast<float>(spec_.embedding_scale), hidden);
  }

  RmsNorm attention_norm(int64_t layer) const {
    const LayerWeights& weights = model_.layer(layer);
    return {weights.attention_norm, weights.attention_norm_bias, epsilon()};
  }

  /// hidden += sub-layer's output; normed = the next sub-layer's input.
  void add_sublayer_and_norm(const RmsNorm& norm) {
    add_and_norm(context_, view(Buffer::kHidden), residual_scale(), view(Buffer::kSublayer), norm,
                 view(Buffer::kNormed));
  }

  Status feed_forward(int64_t layer, const LayerWeights& weights) {
    if (spec_.is_moe_layer(layer)) {
      SOLI_RETURN_IF_ERROR(routed_experts(layer, weights));
      if (weights.shared_down) shared_expert(weights);
    } else {
      enter(Phase::kExperts);
      gated_ffn(weights.ffn_gate, weights.ffn_up, weights.ffn_down, view(Buffer::kSublayer));
    }
    if (hooks_.ffn != nullptr) show_ffn(layer, weights);
    return {};
  }

  void show_ffn(int64_t layer, const LayerWeights& weights) {
    FfnView seen = {.layer = layer,
                    .rows = batch_.rows,
                    .residual = view(Buffer::kHidden),
                    .residual_scale = residual_scale(),
                    .added = view(Buffer::kSublayer)};
    if (!spec_.is_moe_layer(layer)) {
      seen.common_outputs = seen.added;
      seen.common_inner = view(Buffer::kGate, weights.ffn_gate.weight.rows);
    } else {
      seen.choice = &workspace_.choice;
      seen.expert_outputs = workspace_.view(Buffer::kExpertOutputs, workspace_.choice.n_slots());
      seen.expert_inner = experts_.inner();
    }
    if (seen.choice != nullptr && weights.shared_down) {
      seen.common_outputs = view(Buffer::kShared);
      seen.common_inner = view(Buffer::kGate, weights.shared_gate.weight.rows);
      seen.common_weights = view(Buffer::kSharedGate);
    }
    hooks_.ffn->on_ffn(seen);
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
                       .residual = view(Buffer::kHidden),
                       .hidden = input,
                       .logits = {},
                       .scores = {}};
    const bool clamps = workspace_.steer.clamps(layer);
    if (clamps || hooks_.control != nullptr) {
      input = view(Buffer::kGateInput);
      std::copy_n(seen.hidden.data, n_rows_ * seen.hidden.cols, input.data);
      if (clamps) workspace_.steer.clamp(context_, layer, input);
      if (hooks_.control != nullptr) hooks_.control->edit_gate_input(seen, input);
      seen.hidden = input;
    }
    const MatrixView<float> logits = view(Buffer::kRouterLogits);
    linear(context_, weights.router, input, logits);
    seen.logits = logits;
    if (hooks_.control != nullptr) hooks_.control->edit_logits(seen, logits);
    const MatrixView<float> scores = view(Buffer::kScores);
    router_scores(context_, spec_.router, logits, scores);
    workspace_.steer.edit_scores(context_, spec_.router, layer, logits, scores);
    seen.scores = scores;
    select_experts(context_, spec_.router,
                   {.bias = weights.selection_bias, .layer = layer, .overflow = &workspace_.overflow},
                   batch_.rows, logits, scores, workspace_.choice, workspace_.row_failed);
    if (RouterControl* const control = experts_.control()) {
      control->edit_choice(seen, workspace_.choice);
      check_choice(spec_.router, workspace_.choice, n_rows_);
    }
    if (hooks_.control != nullptr) {
      hooks_.control->edit_choice(seen, workspace_.choice);
      check_choice(spec_.router, workspace_.choice, n_rows_);
    }
    if (hooks_.observer != nullptr) hooks_.observer->on_route(seen, workspace_.choice);
    if (RouterObserver* const ahead = experts_.observer()) ahead->on_route(seen, workspace_.choice);
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

  /// Last norm, and output head for the rows that want logits.
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
    const GlobalWeights& global = model_.global();
    rms_norm(context_, gathered, {global.output_norm, global.output_norm_bias, epsilon()}, gathered);
    const MatrixView<float> logits = workspace_.view(Buffer::kLogits, n_wanted);
    linear(context_, model_.output(), gathered, logits);
    scale_rows(context_, static_cast<float>(1 / spec_.logit_scale), logits);
    context_.team.parallel_for(n_wanted, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        if (context_.kernels.all_finite(logits.row(i), logits.cols)) continue;
        workspace_.row_failed[static_cast<size_t>(wanted[static_cast<size_t>(i)])] = 1;
      }
    });
    return {logits, gathered, only_hidden()};
  }

  /// The last norm for the rows that want their hidden state alone. Nothing reads kNormed any more.
  MatrixView<const float> only_hidden() {
    std::vector<int64_t>& wanted = workspace_.wanted_rows;
    wanted.clear();
    for (int64_t row = 0; row < n_rows_; ++row) {
      if (batch_.rows[static_cast<size_t>(row)].want_hidden) wanted.push_back(row);
    }
    const MatrixView<float> hidden = view(Buffer::kHidden);
    const MatrixView<float> gathered =
        view(Buffer::kNormed).row_range(0, static_cast<int64_t>(wanted.size()));
    for (int64_t i = 0; i < gathered.rows; ++i) {
      std::copy_n(hidden.row(wanted[static_cast<size_t>(i)]), hidden.cols, gathered.row(i));
    }
    const GlobalWeights& global = model_.global();
    rms_norm(context_, gathered, {global.output_norm, global.output_norm_bias, epsilon()}, gathered);
    for (int64_t i = 0; i < gathered.rows; ++i) {
      if (context_.kernels.all_finite(gathered.row(i), gathered.cols)) continue;
      workspace_.row_failed[static_cast<size_t>(wanted[static_cast<size_t>(i)])] = 1;
    }
    return gathered;
  }

  float epsilon() const { return static_cast<float>(spec_.norm_epsilon); }
  float residual_scale() const { return static_cast<float>(spec_.residual_scale); }

  const Model& model_;
  const ModelSpec& spec_;
  const Batch& batch_;
  const SequenceLayout& layout_;
  OpContext& context_;
  Workspace& workspace_;
  ExpertExecutor& experts_;
  const Hooks& hooks_;
  const int64_t n_rows_;
};

}  // namespace

Result<StepOutput> forward(const Model& model, const Batch& batch, const SequenceLayout& layout,
                           OpContext& context, Workspace& workspace, ExpertExecutor& experts,
                           const Hooks& hooks) {
  return Step(model, batch, layout, context, workspace, experts, hooks).run();
}

}  // namespace soli
