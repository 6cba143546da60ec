#pragma once

// A sequence whose routing is steered, in one layer after the other, without a model around it.

#include <cstddef>
#include <vector>

#include "model/router.h"
#include "model/steer.h"
#include "ops/runtime.h"

namespace soli {

struct SteeredChoice {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  bool failed = false;
};

class SteeredSequence {
 public:
  /// `bias`: the model's own bias of selection, or empty.
  SteeredSequence(Runtime& runtime, RouterSpec router, const RoutingPolicy& policy,
                  std::vector<float> bias = {}, int64_t n_layers = 1)
      : context_{runtime.team(), runtime.kernels()}, policy_(policy), bias_(std::move(bias)) {
    spec_.n_layers = n_layers;
    spec_.router = router;
    auto steering = Steering::create(policy, spec_, router.n_experts);
    if (!steering) {
      error = steering.error().message;
      return;
    }
    steering_ = *steering;
    const SteeringLayout layout(spec_);
    for (auto& page : pages_) page.resize(static_cast<size_t>(layout.page_bytes()), std::byte{0x7F});
    for (auto& page : pages_) states_.push_back(page.data());
  }

  /// The next positions of the sequence, in one step: their logits become choices.
  std::vector<SteeredChoice> route(const std::vector<std::vector<float>>& logits, int64_t layer = 0) {
    const auto n_rows = static_cast<int64_t>(logits.size());
    std::vector<float> flat;
    for (const auto& row : logits) flat.insert(flat.end(), row.begin(), row.end());
    std::vector<float> score_values(flat.size());
    const MatrixView<float> logit_view(flat.data(), n_rows, spec_.router.n_experts);
    const MatrixView<float> scores(score_values.data(), n_rows, spec_.router.n_experts);
    std::vector<BatchRow> rows(logits.size());
    for (size_t r = 0; r < rows.size(); ++r) {
      rows[r] = {.position = position_ + static_cast<int64_t>(r),
                 .policy = &policy_,
                 .steering = steering_.get(),
                 .states = states_};
    }
    Steer steer;
    steer.begin_step(rows);
    router_scores(context_, spec_.router, logit_view, scores);
    steer.edit_scores(context_, spec_.router, layer, logit_view, scores);
    Choice choice;
    std::vector<uint8_t> failed(logits.size(), 0);
    select_experts(context_, spec_.router, {.bias = bias_, .layer = layer, .overflow = &overflow}, rows,
                   logit_view, scores, choice, failed);
    check_choice(spec_.router, choice, n_rows);
    std::vector<SteeredChoice> choices;
    for (int64_t row = 0; row < n_rows; ++row) {
      const auto ids = choice.ids_of(row);
      const auto weights = choice.weights_of(row);
      choices.push_back({{ids.begin(), ids.end()},
                         {weights.begin(), weights.end()},
                         failed[static_cast<size_t>(row)] != 0});
    }
    if (layer + 1 == spec_.n_layers) position_ += n_rows;
    return choices;
  }

  const Steering* steering() const { return steering_.get(); }
  void go_to(int64_t position) { position_ = position; }

  std::string error;
  OverflowCounts overflow;

 private:
  OpContext context_;
  ModelSpec spec_;
  const RoutingPolicy policy_;
  const std::vector<float> bias_;
  std::shared_ptr<const Steering> steering_;
  std::vector<std::byte> pages_[4];
  std::vector<std::byte*> states_;
  int64_t position_ = 0;
};

}  // namespace soli
