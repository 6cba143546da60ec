#include "plan/ceilings.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/known_machines.h"

namespace soli {
namespace {

constexpr double kLeastOfExpected = 0.9;

struct Figure {
  const char* name;
  const char* unit;
  double Ceilings::*scalar;
  Arithmetic arithmetic;

  double of(const Ceilings& ceilings) const {
    return scalar != nullptr ? ceilings.*scalar : ceilings.operations_per_s[static_cast<size_t>(arithmetic)];
  }
};

constexpr std::array<Figure, 1 + kArithmetics> kFigures = {{
    {"memory read", "GB/s", &Ceilings::read_bytes_per_s, {}},
    {"f32 peak", "Gop/s", nullptr, Arithmetic::kF32},
    {"bf16 dot peak", "Gop/s", nullptr, Arithmetic::kBf16},
    {"8-bit dot peak", "Gop/s", nullptr, Arithmetic::kInt8},
}};

}  // namespace

Ceilings ceilings_of(const MachineCeilings& measured) {
  return {.read_bytes_per_s = measured.read_bytes_per_s.all.median,
          .operations_per_s = {measured.f32_operations_per_s.all.median,
                               measured.bf16_operations_per_s.all.median,
                               measured.int8_operations_per_s.all.median}};
}

Ceilings larger_of(const Ceilings& a, const Ceilings& b) {
  Ceilings larger;
  larger.read_bytes_per_s = std::max(a.read_bytes_per_s, b.read_bytes_per_s);
  for (size_t i = 0; i < kArithmetics; ++i) {
    larger.operations_per_s[i] = std::max(a.operations_per_s[i], b.operations_per_s[i]);
  }
  return larger;
}

Shares shares_of(const Work& work, double seconds, const Ceilings& ceilings) {
  if (seconds <= 0) return {};
  double seconds_at_peak = 0;
  for (size_t i = 0; i < kArithmetics; ++i) {
    seconds_at_peak +=
        static_cast<double>(work.operations(static_cast<Arithmetic>(i))) / ceilings.operations_per_s[i];
  }
  return {.bandwidth = static_cast<double>(work.bytes()) / seconds / ceilings.read_bytes_per_s,
          .peak = seconds_at_peak / seconds};
}

std::vector<std::string> distrust(const Ceilings& before, const Ceilings& after, const KnownMachine* known) {
  std::vector<std::string> reasons;
  for (const Figure& figure : kFigures) {
    const double first = figure.of(before);
    const double second = figure.of(after);
    const double least = std::min(first, second);
    if (least < kLeastOfExpected * std::max(first, second)) {
      reasons.push_back(fmt::format(
          "{}: {:.1f} {} before and {:.1f} after the work: something else ran, or the clock changed",
          figure.name, first / 1e9, figure.unit, second / 1e9));
    }
    if (known != nullptr && least < kLeastOfExpected * figure.of(known->least)) {
      reasons.push_back(fmt::format(
          "{}: {:.1f} {} is under {:.0f} % of the {:.0f} that this machine ({}) has shown", figure.name,
          least / 1e9, figure.unit, 100 * kLeastOfExpected, figure.of(known->least) / 1e9, known->name));
    }
  }
  return reasons;
}

std::optional<std::string> distrust(const std::string& what, const Shares& shares) {
  if (shares.bandwidth > 1) {
    return fmt::format("{}: {:.1f} % of the read bandwidth: weights that stay in caches have another ceiling",
                       what, 100 * shares.bandwidth);
  }
  if (shares.peak > 1) return fmt::format("{}: {:.1f} % of the peak", what, 100 * shares.peak);
  return std::nullopt;
}

}  // namespace soli
