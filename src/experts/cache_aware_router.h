#pragma once

#include <cstdint>
#include <vector>

#include "experts/tiered_store.h"
#include "model/hooks.h"
#include "model/model.h"

namespace soli {

/// Lossy: moves each row's choice towards the experts that are in memory, so that fewer are read; how far is
/// bounded (Selection::preference). Weights stay those of the model's rule. What is chosen depends on what
/// was asked before, so that answers do too. (Skliar et al. 2024, "Mixture of Cache-Conditional Experts",
/// have a bound that follows the range of the logits; here it is one that a person can read.) Borrows model
/// and store; engine's thread.
class CacheAwareRouter final : public RouterControl {
 public:
  static constexpr float kMostPreference = 16;

  /// `preference`: 1 (the model's own choice) to kMostPreference.
  CacheAwareRouter(const Model& model, const TieredExpertStore& store, float preference);

  /// 1 until the next call: nothing is moved. Between steps.
  void set_preference(float preference) { preference_ = preference; }
  float preference() const { return preference_; }

  void edit_gate_input(const RouterView&, MatrixView<float>) override {}
  void edit_logits(const RouterView&, MatrixView<float>) override {}
  void edit_choice(const RouterView& view, Choice& choice) override;
  void edit_expert_outputs(const RouterView&, const Choice&, MatrixView<float>) override {}

  /// Calls of experts since the start, and those that went to another expert than the model's own choice.
  int64_t n_calls() const { return n_calls_; }
  int64_t n_moved() const { return n_moved_; }
  double moved_share() const { return share(n_moved_, n_calls_); }

 private:
  void count(const Choice& own, const Choice& moved);

  const Model& model_;
  const TieredExpertStore& store_;
  OpContext context_;
  float preference_;
  int64_t n_calls_ = 0;
  int64_t n_moved_ = 0;
  Choice moved_;
  std::vector<uint8_t> in_memory_;   // [n_experts] of the layer
  std::vector<uint8_t> row_failed_;  // told by the model's own choice already
};

}  // namespace soli
