#pragma once

#include <cstdint>

namespace soli {

/// Whether to read experts ahead of their layer's turn, and how many: by what it has gained and cost so far.
/// While a step computes, the disk has nothing to do for some time, in which a right guess is read for
/// nothing. A wrong one costs what is left of its read when the turn comes, and the expert that left for it.
class PrefetchGate {
 public:
  enum class Mode { kOff, kAuto, kAlways };

  /// `chance`: of any expert to be called at a turn, k / experts.
  PrefetchGate(Mode mode, double chance) : mode_(mode), chance_(chance) {}

  /// Experts to read ahead for the next turn; 0 where it would not pay.
  int64_t allowance() const;
  /// Whether predictions are worth their computation at step `step`: where they are not acted upon, only now
  /// and then, to see whether they have become better.
  bool wants_prediction(int64_t step) const;

  /// Of `n` predicted experts that were not in memory, `n_called` were called.
  void on_outcome(int64_t n, int64_t n_called);
  /// From the arrival of a turn's last expert to the next turn.
  void on_idle(double seconds);
  /// What one expert took, of several that were read together.
  void on_read(double seconds);

  Mode mode() const { return mode_; }
  double precision() const { return precision_; }
  double idle_seconds() const { return idle_s_; }
  double read_seconds() const { return read_s_; }

 private:
  double gain_s(double n) const;

  const Mode mode_;
  const double chance_;
  double precision_ = 0.5;  // means over recent turns
  double idle_s_ = 0;
  double read_s_ = 0;
};

}  // namespace soli
