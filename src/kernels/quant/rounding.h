#pragma once

// Rounding and ranges of the scalar quantisers. Not in an ISA's namespace: included before any target pragma.

namespace soli::kernels {

/// x rounded to nearest, halves away from zero, and clamped to [low, high]; NaN becomes low.
inline int round_clamped(float x, int low, int high) {
  const float rounded = __builtin_roundf(x);
  if (!(rounded > static_cast<float>(low))) return low;
  return rounded < static_cast<float>(high) ? static_cast<int>(rounded) : high;
}

/// x without its fraction, clamped to [0, high]; NaN becomes 0.
inline int truncate_clamped(float x, int high) {
  if (!(x > 0)) return 0;
  return x < static_cast<float>(high) ? static_cast<int>(x) : high;
}

/// The element of largest magnitude, the first of several; 0 if all are.
inline float extreme_of(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) extreme = __builtin_fabsf(x[i]) > __builtin_fabsf(extreme) ? x[i] : extreme;
  return extreme;
}

struct Range {
  float min;
  float max;
};

inline Range range_of(const float* x, int n) {
  Range range{x[0], x[0]};
  for (int i = 1; i < n; ++i) {
    range.min = x[i] < range.min ? x[i] : range.min;
    range.max = x[i] > range.max ? x[i] : range.max;
  }
  return range;
}

}  // namespace soli::kernels
