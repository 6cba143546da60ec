#pragma once

#include <cstdint>
#include <string_view>

#include "plan/ceilings.h"

namespace soli {

/// A kind of machine whose ceilings were measured before, many times and idle.
struct KnownMachine {
  std::string_view name;
  std::string_view cpu_vendor;  // as in MachineInfo, as the next two
  int64_t cpu_family = 0;
  int usable_cpus = 0;
  std::string_view isa;
  Ceilings least;  // the lowest medians that it showed, with a thread on every core
};

/// What is known of machines like this one, for that instruction set and as many threads as usable CPUs; null
/// otherwise. Kinds that nobody has measured are not judged.
const KnownMachine* find_known_machine(const MachineInfo& machine, std::string_view isa, int n_threads);

}  // namespace soli
