#include "plan/known_machines.h"

#include <algorithm>
#include <array>

namespace soli {
namespace {

constexpr double kGiga = 1e9;

// A row here is a promise that an idle machine of the kind reaches it; figures drift by some 20 % from run to
// run, so these are the lower ends (docs/performance.md).
constexpr std::array<KnownMachine, 1> kKnown = {{
    {.name = "AMD Zen 5, 2 cores",
     .cpu_vendor = "AuthenticAMD",
     .cpu_family = 26,
     .usable_cpus = 2,
     .isa = "avx512",
     .least = {.read_bytes_per_s = 46 * kGiga, .operations_per_s = {410 * kGiga, 810 * kGiga, 1620 * kGiga}}},
}};

}  // namespace

const KnownMachine* find_known_machine(const MachineInfo& machine, std::string_view isa, int n_threads) {
  const auto fits = [&](const KnownMachine& known) {
    return known.cpu_vendor == machine.cpu_vendor && known.cpu_family == machine.cpu_family &&
           known.usable_cpus == machine.usable_cpus && known.isa == isa && n_threads == machine.usable_cpus;
  };
  const auto* const found = std::find_if(kKnown.begin(), kKnown.end(), fits);
  return found == kKnown.end() ? nullptr : found;
}

}  // namespace soli
