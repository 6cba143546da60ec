#include "experts/heat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace soli {
namespace {

/// The formula as it stands in the definitions, every heat brought up to date at every step.
class PlainHeat {
 public:
  PlainHeat(int64_t n_layers, int64_t n_experts, double half_life)
      : n_experts_(n_experts), half_life_(half_life), heat_(static_cast<size_t>(n_layers * n_experts)) {}

  void pass(int64_t layer, int64_t n_tokens) {
    for (int64_t e = 0; e < n_experts_; ++e) at(layer, e) *= std::pow(2.0, -double(n_tokens) / half_life_);
  }
  double& at(int64_t layer, int64_t expert) {
    return heat_[static_cast<size_t>(layer * n_experts_ + expert)];
  }

 private:
  int64_t n_experts_;
  double half_life_;
  std::vector<double> heat_;
};

void compare(const Heat& heat, PlainHeat& plain) {
  for (int64_t layer = 0; layer < heat.n_layers(); ++layer) {
    for (int64_t e = 0; e < heat.n_experts(); ++e) {
      const double expected = plain.at(layer, e);
      EXPECT_NEAR(heat.at(layer, e), expected, 1e-9 * expected + 1e-60) << layer << " " << e;
      EXPECT_EQ(
          heat.at_number(static_cast<size_t>(layer), static_cast<int32_t>(layer * heat.n_experts() + e)),
          heat.at(layer, e));
    }
  }
}

TEST(Heat, IsWhatTheFormulaSays) {
  for (const double half_life : {0.75, 7.0, 300.0, 1e9}) {
    Rng rng(5);
    Heat heat(3, 10, half_life);
    PlainHeat plain(3, 10, half_life);
    for (int step = 0; step < 4000; ++step) {
      for (int64_t layer = 0; layer < 3; ++layer) {
        const auto n_tokens = static_cast<int64_t>(rng.next_below(10) == 0 ? rng.next_below(600) : 1);
        heat.pass(layer, n_tokens);
        plain.pass(layer, n_tokens);
        for (int64_t e = 0; e < 10; ++e) {
          if (rng.next_below(4) != 0) continue;
          const double calls = static_cast<double>(1 + rng.next_below(5));
          heat.add(layer, e, calls);
          plain.at(layer, e) += calls;
        }
      }
    }
    compare(heat, plain);
  }
}

TEST(Heat, ComparesExpertsOfLayersThatStandAtDifferentTokens) {
  Heat heat(2, 2, 10);
  heat.pass(0, 1);
  heat.add(0, 0, 4);
  heat.pass(1, 1);
  heat.add(1, 0, 3);
  EXPECT_GT(heat.at(0, 0), heat.at(1, 0));
  heat.pass(0, 10);  // a half-life at layer 0 only
  EXPECT_DOUBLE_EQ(heat.at(0, 0), 2);
  EXPECT_DOUBLE_EQ(heat.at(1, 0), 3);
}

TEST(Heat, ForgetsWhatLiesFarBack) {
  Heat heat(1, 2, 2);
  heat.add(0, 0, 1e6);
  heat.pass(0, 1'000'000'000);
  heat.add(0, 1, 1);
  EXPECT_EQ(heat.at(0, 0), 0);
  EXPECT_DOUBLE_EQ(heat.at(0, 1), 1);
  EXPECT_EQ(heat.tokens(), 1'000'000'000);
}

TEST(Heat, CountsTokensOfTheLayerThatSawMost) {
  Heat heat(2, 1, 2, 100);
  heat.pass(0, 5);
  heat.pass(1, 7);
  EXPECT_EQ(heat.tokens(), 107);
}

TEST(Heat, WeighsALongVisitAsManyShortOnes) {
  for (const double half_life : {1.0, 16.0, 256.0, 1e6}) {
    for (const int64_t n_tokens : {1, 2, 17, 512}) {
      double sum = 0;  // of one call per row, seen from the last row
      for (int64_t age = 0; age < n_tokens; ++age) sum += std::exp2(-double(age) / half_life);
      EXPECT_NEAR(weight_of_call(n_tokens, half_life) * double(n_tokens), sum, 1e-9 * sum);
    }
  }
}

}  // namespace
}  // namespace soli
