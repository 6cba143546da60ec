#pragma once

#include <cstdint>

#include "base/slab.h"
#include "experts/store.h"
#include "model/expert_executor.h"
#include "model/workspace.h"

namespace soli {

/// Computes experts on this machine's threads, wave by wave as the store yields them. One per engine; borrows
/// the store.
class LocalExecutor final : public ExpertExecutor {
 public:
  /// Charges its scratch memory as "activations"; `limits` are those of the engine's workspace.
  static Result<LocalExecutor> create(const ModelSpec& spec, ExpertStore& store, Budget& budget,
                                      const Workspace::Limits& limits);
  /// What create() would charge.
  static int64_t bytes_needed(const ModelSpec& spec, const Workspace::Limits& limits);

  Status run(OpContext& context, int64_t layer, const RowsByExpert& grouped, MatrixView<const float> x,
             MatrixView<float> y) override;
  MatrixView<const float> inner() const override {
    return {reinterpret_cast<const float*>(inner_.data()), n_slots_, expert_width_};
  }
  RouterObserver* observer() override { return observer_; }
  RouterControl* control() override { return control_; }

  /// Borrowed; null: none. Not while a step runs.
  void set_observer(RouterObserver* observer) { observer_ = observer; }
  void set_control(RouterControl* control) { control_ = control; }
  void set_meter(ExpertMeter* meter) { meter_ = meter; }

 private:
  LocalExecutor(ExpertStore& store, int64_t expert_width, Slab inner)
      : store_(store), expert_width_(expert_width), inner_(std::move(inner)) {}

  ExpertStore& store_;
  int64_t expert_width_;
  Slab inner_;           // [slots][expert_width] floats
  int64_t n_slots_ = 0;  // of the last run
  RouterObserver* observer_ = nullptr;
  RouterControl* control_ = nullptr;
  ExpertMeter* meter_ = nullptr;
};

}  // namespace soli
