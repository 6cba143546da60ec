#pragma once

// Limits on numbers of a ModelSpec, wide around every published model: for files that are read and for those
// that are written.

namespace soli {

// Outside of these, angles are no longer numbers.
inline constexpr double kMinRopeBase = 1e-6;
inline constexpr double kMaxRopeBase = 1e12;
inline constexpr double kMinYarnBase = 1.001;  // with a base of 1 no pair could be told from another
inline constexpr double kMinScale = 1e-6;      // of divisors
inline constexpr double kMaxScale = 1e6;

}  // namespace soli
