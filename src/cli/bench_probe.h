#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "observe/phase_probe.h"
#include "plan/ceilings.h"
#include "plan/known_machines.h"
#include "plan/machine.h"

namespace soli::cli {

/// The phases of one kind of work, over all its repetitions.
struct ProbedWork {
  enum class Kind { kPrefill, kDecode };
  Kind kind = Kind::kPrefill;
  int64_t size = 0;  // tokens of the prompt, or sequences
  PhaseTotals totals;

  std::string name() const;  // "prefill 512", "decode of 8"
};

/// What `bench --probe` found out.
struct ProbeFigures {
  MachineCeilings before;  // the work
  MachineCeilings after;
  std::vector<ProbedWork> work;

  /// What shares are of: the larger of both.
  Ceilings ceilings() const { return larger_of(ceilings_of(before), ceilings_of(after)); }
  /// Why the run means nothing; empty: it counts. `known` may be null.
  std::vector<std::string> void_reasons(const KnownMachine* known) const;
};

std::string render_text(const ProbeFigures& probe);
nlohmann::ordered_json ceilings_json(const ProbeFigures& probe);
nlohmann::ordered_json work_json(const ProbeFigures& probe);

}  // namespace soli::cli
