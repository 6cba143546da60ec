#pragma once

// How sure a profile's figures are: a bootstrap over the sampled runs of tokens, and permutations of the
// sampled tokens. Seeded; the same figures on every machine.

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/routing_profile.h"

namespace soli {

/// Of bootstraps and of permutations. The smallest p-value is 1 / 200, two-sided 1 / 100.
inline constexpr int64_t kProfileReplicates = 199;

/// A 95 % interval.
struct Interval {
  double low = 0;
  double high = 0;
};

/// Where a figure lies among what permutations of the tokens give.
struct PermutationTest {
  double observed = 0;  // in the sample
  double permuted = 0;  // mean over permutations
  double p = 1;         // share of them that are as far away or farther, the observed order counted as one
};

/// Of one domain or all of them, in one layer or as a mean over layers.
struct ResampledFigures {
  /// Bootstrap, "basic" intervals (Davison, Hinkley 1997, 5.2): what replicates differ from the sample by is
  /// taken off the figure of all tokens. Absent for fewer than two runs.
  std::optional<Interval> variation;     // of the share
  std::optional<Interval> never_called;  // share
  /// Information in bits that a call has of the domain: of all domains the mutual information I(expert;
  /// domain), of one its part (specific_information_bits). One-sided. Absent for fewer than two domains.
  std::optional<PermutationTest> information;
  /// Mean Jaccard overlap of consecutive tokens. Two-sided. Absent without any.
  std::optional<PermutationTest> stability;
};

/// Of one target, by layers, and as their mean.
struct ResampledTarget {
  std::vector<ResampledFigures> layers;  // [MoE layers]
  ResampledFigures total;
};

/// Targets: the domains, and then all of them together. A domain that has nothing yet is given nothing.
std::vector<ResampledTarget> resample(const RoutingProfile& profile, uint64_t seed);

}  // namespace soli
