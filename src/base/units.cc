#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace soli {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 9> kUnits = {{{"B", 1},
                                         {"KiB", 1024.0},
                                         {"MiB", 1048576.0},
                                         {"GiB", 1073741824.0},
                                         {"TiB", 1099511627776.0},
                                         {"KB", 1e3},
                                         {"MB", 1e6},
                                         {"GB", 1e9},
                                         {"TB", 1e12}}};

std::string three_digits(double value) {
  return value < 10    ? fmt::format("{:.2f}", value)
         : value < 100 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.0f}", value);
}

}  // namespace

Result<int64_t> parse_bytes(std::string_view name, std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit_text(rest, static_cast<size_t>(end - rest));
  if (error == std::errc{}) {
    for (const Unit& unit : kUnits) {
      if (unit_text != unit.name) continue;
      const double bytes = number * unit.bytes;
      if (std::isfinite(bytes) && bytes >= 1 && bytes <= 0x1p62) return static_cast<int64_t>(bytes);
    }
  }
  return fail(
      ErrorKind::kInvalidArgument,
      "{}: '{}' is not an amount of memory; write a positive number with a unit, such as 12GiB or 800MiB",
      name, text);
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : three_digits(value) + " " + kNames[unit];
}

std::string format_mean_bytes(double bytes) { return format_bytes(std::llround(bytes)); }

std::string format_count(double count) {
  constexpr std::array<const char*, 5> kNames = {"", " K", " M", " B", " T"};
  size_t unit = 0;
  while (count >= 1000 && unit + 1 < kNames.size()) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:g}", count) : three_digits(count) + kNames[unit];
}

}  // namespace soli
