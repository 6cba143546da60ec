#include "observe/phase_probe.h"

#include <chrono>
#include <numeric>
#include <utility>

namespace soli {

int64_t PhaseTotals::step_ns() const { return std::accumulate(ns.begin(), ns.end(), int64_t{0}); }

PhaseTotals& PhaseTotals::operator+=(const PhaseTotals& other) {
  n_steps += other.n_steps;
  for (size_t phase = 0; phase < kPhases; ++phase) {
    ns[phase] += other.ns[phase];
    work[phase] += other.work[phase];
  }
  return *this;
}

PhaseProbe::PhaseProbe(StepWork work, Nanoseconds now) : work_(std::move(work)), now_(std::move(now)) {}

int64_t PhaseProbe::steady_nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void PhaseProbe::begin_step() {
  step_ = {};
  phase_ = Phase::kOther;
  since_ns_ = now_();
}

void PhaseProbe::on_batch(const Batch& batch) { work_.add_rows(count_rows(work_.spec(), batch), step_.work); }

void PhaseProbe::enter(Phase phase) {
  const int64_t now = now_();
  step_.ns[static_cast<size_t>(phase_)] += now - since_ns_;
  phase_ = phase;
  since_ns_ = now;
}

void PhaseProbe::on_experts(int64_t layer, const RowsByExpert& grouped) {
  for (size_t group = 0; group < grouped.experts.size(); ++group) {
    work_.add_expert(layer, grouped.experts[group], grouped.begin[group + 1] - grouped.begin[group],
                     step_.work);
  }
}

void PhaseProbe::end_step() {
  enter(Phase::kOther);
  step_.n_steps = 1;
  totals_ += step_;
}

PhaseTotals PhaseProbe::take() { return std::exchange(totals_, {}); }

}  // namespace soli
