#pragma once

// Rounding of the scalar quantisers. Not in an ISA's namespace: included before any target pragma.

namespace soli::kernels {

/// x rounded to nearest, halves away from zero, and clamped to [low, high]; NaN becomes low.
inline int round_clamped(float x, int low, int high) {
  const float rounded = __builtin_roundf(x);
  if (!(rounded > static_cast<float>(low))) return low;
  return rounded < static_cast<float>(high) ? static_cast<int>(rounded) : high;
}

}  // namespace soli::kernels
