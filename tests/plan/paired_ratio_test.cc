#include "plan/paired_ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace soli {
namespace {

TEST(PairedRatio, OfEqualRatiosIsExact) {
  const PairedRatio ratio = paired_ratio(std::vector<TimedPair>{{2, 1}, {8, 4}, {6, 3}});
  EXPECT_DOUBLE_EQ(ratio.ratio, 2);
  EXPECT_NEAR(ratio.low, 2, 1e-12);
  EXPECT_NEAR(ratio.high, 2, 1e-12);
  EXPECT_EQ(ratio.n_pairs, 3);
}

TEST(PairedRatio, IsAGeometricMean) {
  const PairedRatio ratio = paired_ratio(std::vector<TimedPair>{{4, 1}, {1, 1}});
  EXPECT_DOUBLE_EQ(ratio.ratio, 2);
  EXPECT_NEAR(ratio.low, 1, 1e-12);
  EXPECT_NEAR(ratio.high, 4, 1e-12);
}

/// Pairs whose speed drifts together and whose log ratios have a known mean and deviation.
std::vector<TimedPair> noisy_pairs(uint64_t seed, size_t n, double mean, double deviation) {
  Rng rng(seed);
  std::vector<TimedPair> pairs(n);
  for (TimedPair& pair : pairs) {
    const double noise = deviation * std::sqrt(12.0) * (rng.next_unit() - 0.5);
    pair.without_s = 1 + 10 * rng.next_unit();
    pair.with_s = pair.without_s * std::exp(mean + noise);
  }
  return pairs;
}

TEST(PairedRatio, IntervalsAreAsWideAsTheTheorySays) {
  const PairedRatio ratio = paired_ratio(noisy_pairs(3, 400, 0.01, 0.02));
  EXPECT_NEAR(std::log(ratio.high / ratio.low), 2 * 1.96 * 0.02 / std::sqrt(400.0), 5e-4);
}

TEST(PairedRatio, IntervalsHoldTheTruthAboutNineteenTimesInTwenty) {
  int held = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const PairedRatio ratio = paired_ratio(noisy_pairs(100 + seed, 40, 0.01, 0.05));
    held += ratio.low <= std::exp(0.01) && std::exp(0.01) <= ratio.high ? 1 : 0;
  }
  EXPECT_GE(held, 52);
}

}  // namespace
}  // namespace soli
