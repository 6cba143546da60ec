#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace soli {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

/// Parses an amount of memory with its unit: "512MiB", "12GiB", "1.5GB", "4096B". A number without a
/// unit, a negative, zero, NaN or one above 2^62 bytes is refused; `name` is the flag that the error names.
Result<int64_t> parse_bytes(std::string_view name, std::string_view text);

/// "3.42 GiB", "17 B": three significant digits, binary units.
std::string format_bytes(int64_t bytes);
/// The same of a mean, to the nearest byte.
std::string format_mean_bytes(double bytes);

/// "6.92 B", "14.4 M": a count in thousands, with three significant digits.
std::string format_count(double count);

}  // namespace soli
