#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/hooks.h"
#include "model/recorded_choices.h"
#include "model/spec.h"

namespace soli {

/// Where the routing weights of a replay come from.
enum class ReplayWeights {
  kRecorded,  // as they were recorded
  kRouter,    // the model's own rule over its own scores of the recorded experts
};

/// How the choices that a model makes by itself agree with recorded ones. Sums over rows of a layer.
struct ChoiceAgreement {
  int64_t n_choices = 0;       // rows
  int64_t n_same_choices = 0;  // of which call the same experts, in whatever order
  int64_t n_calls = 0;         // of experts, as recorded
  int64_t n_same_calls = 0;    // of which the model makes by itself

  ChoiceAgreement& operator+=(const ChoiceAgreement& other);
};

/// Holds what a model chooses against what was recorded, and can put the recorded choice in its place: then
/// everything after the router is as in the recorded run. With kRouter this is how routing is replayed in
/// training from what an inference engine chose (R3: Ma et al. 2025, arXiv 2510.11370). Engine's thread.
class ReplayRouter final : public RouterControl {
 public:
  /// `forces`: else the model's own choices stay, and are counted only.
  ReplayRouter(const ModelSpec& spec, bool forces, ReplayWeights weights);

  /// What the request's tokens chose: every position that will be computed. Before its first step; every
  /// request of a step must have been added.
  void add(RequestId request, RecordedChoices choices);
  /// Forgets a request that has ended.
  void remove(RequestId request) { choices_.erase(request); }

  /// [layers with experts]; rows that were computed again count again.
  const std::vector<ChoiceAgreement>& agreement() const { return agreement_; }

  void edit_gate_input(const RouterView&, MatrixView<float>) override {}
  void edit_logits(const RouterView&, MatrixView<float>) override {}
  void edit_choice(const RouterView& view, Choice& choice) override;
  void edit_expert_outputs(const RouterView&, const Choice&, MatrixView<float>) override {}

 private:
  void append_forced(const RouterView& view, int64_t row, std::span<const int16_t> ids,
                     std::span<const float> weights);

  const bool forces_;
  const ReplayWeights weights_;
  std::vector<int64_t> place_;  // [layers of the model] among those with experts, or -1
  std::map<RequestId, RecordedChoices> choices_;
  std::vector<ChoiceAgreement> agreement_;
  Choice forced_;
};

}  // namespace soli
