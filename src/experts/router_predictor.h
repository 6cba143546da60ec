#pragma once

#include <cstdint>
#include <vector>

#include "base/slab.h"
#include "experts/tiered_store.h"
#include "model/hooks.h"
#include "model/model.h"
#include "model/workspace.h"

namespace soli {

/// Guesses which experts the next layers will call, by their routers applied to the present hidden state
/// (Eliseev, Mazur 2023, section 3.2), and tells the store. Sees the routing and changes nothing. Borrows
/// model and store; engine's thread.
class RouterPredictor final : public RouterObserver {
 public:
  static constexpr int64_t kMostAhead = 2;

  /// `n_ahead`: layers to look ahead, 1 to kMostAhead. Charges its buffers as "prefetch". Fails with kLimit.
  static Result<std::unique_ptr<RouterPredictor>> create(const Model& model, TieredExpertStore& store,
                                                         ActivationPrecision activations,
                                                         const Workspace::Limits& limits, int64_t n_ahead);
  /// What create() would charge.
  static int64_t bytes_needed(const ModelSpec& spec, const Workspace::Limits& limits);

  void on_route(const RouterView& view, const Choice& choice) override;

 private:
  RouterPredictor(const Model& model, TieredExpertStore& store, ActivationPrecision activations, Slab slab,
                  int64_t max_rows, int64_t n_ahead);
  void predict(const RouterView& view, int64_t layer);
  void tell(int64_t layer);

  const Model& model_;
  TieredExpertStore& store_;
  OpContext context_;
  Slab slab_;  // [rows][hidden], then twice [rows][n_experts]
  const int64_t max_rows_;
  const int64_t n_ahead_;
  Choice choice_;
  std::vector<uint8_t> row_failed_;
  std::vector<int32_t> calls_;  // [n_experts]
  std::vector<int32_t> order_;  // [n_experts] the most called first
};

}  // namespace soli
