#pragma once

// What work reached, as shares of what the machine reached in the same run; and whether that run counts.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "observe/step_work.h"
#include "plan/machine.h"

namespace soli {

/// What the whole team reached, with nothing else to do.
struct Ceilings {
  double read_bytes_per_s = 0;
  std::array<double, kArithmetics> operations_per_s = {};  // by Arithmetic
};

/// The medians of all threads.
Ceilings ceilings_of(const MachineCeilings& measured);
/// The larger one of each figure: a share of it does not flatter.
Ceilings larger_of(const Ceilings& a, const Ceilings& b);

struct Shares {
  double bandwidth = 0;  // bytes per second over the read bandwidth
  double peak = 0;       // the time that the operations take at their peaks, over the time that they took
};
Shares shares_of(const Work& work, double seconds, const Ceilings& ceilings);

/// Figures that a run must not fall below: see known_machines.h.
struct KnownMachine;

/// Why shares of these ceilings would mean nothing, one reason each: a figure changed by more than a tenth
/// during the run, or is below nine tenths of what such a machine has shown. `known` may be null.
std::vector<std::string> distrust(const Ceilings& before, const Ceilings& after, const KnownMachine* known);

/// Why a share means nothing, if it is above 1; `what` is whose it is.
std::optional<std::string> distrust(const std::string& what, const Shares& shares);

}  // namespace soli
