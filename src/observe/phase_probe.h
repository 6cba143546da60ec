#pragma once

// Where the time of an engine's steps goes, and what was computed in it [O5].

#include <array>
#include <cstdint>
#include <functional>

#include "observe/step_work.h"

namespace soli {

/// Sums over finished steps.
struct PhaseTotals {
  int64_t n_steps = 0;
  std::array<int64_t, kPhases> ns = {};  // by Phase; together the whole time of the steps
  WorkByPhase work = {};

  int64_t step_ns() const;
  PhaseTotals& operator+=(const PhaseTotals& other);
};

/// Reads the clock at every change of phase and counts the work of every step. One per engine, on its thread.
class PhaseProbe final : public StepProbe {
 public:
  using Nanoseconds = std::function<int64_t()>;  // a clock that never goes back
  explicit PhaseProbe(StepWork work, Nanoseconds now = steady_nanoseconds);

  void begin_step() override;
  void on_batch(const Batch& batch) override;
  void enter(Phase phase) override;
  void on_experts(int64_t layer, const RowsByExpert& grouped) override;
  void end_step() override;

  /// What has been added up since the last take, which begins anew.
  PhaseTotals take();

 private:
  static int64_t steady_nanoseconds();

  const StepWork work_;
  const Nanoseconds now_;
  PhaseTotals totals_;
  PhaseTotals step_;  // the one at work
  Phase phase_ = Phase::kOther;
  int64_t since_ns_ = 0;  // when the phase began
};

}  // namespace soli
