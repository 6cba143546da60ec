#pragma once

#include <cstdint>
#include <span>

namespace soli {

/// The same work done in two ways, one right after the other, in seconds.
struct TimedPair {
  double with_s = 0;
  double without_s = 0;
};

/// Geometric mean of with / without, and its 95 % confidence interval: what drifts from pair to pair cancels.
struct PairedRatio {
  double ratio = 1;
  double low = 1;
  double high = 1;
  int64_t n_pairs = 0;
};

/// Percentile bootstrap over the pairs (Efron 1979), the same for the same pairs. At least two.
PairedRatio paired_ratio(std::span<const TimedPair> pairs);

}  // namespace soli
