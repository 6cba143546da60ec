#include "observe/expert_shares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace soli {
namespace {

using Counts = std::vector<int64_t>;

TEST(ExpertShares, OfFourExpertsByHand) {
  const ExpertShares shares = expert_shares(Counts{4, 2, 2, 0});
  EXPECT_EQ(shares.n_calls, 8);
  EXPECT_EQ(shares.distinct, 3);
  EXPECT_EQ(shares.hottest_expert, 0);
  EXPECT_DOUBLE_EQ(shares.hottest_share, 0.5);
  EXPECT_EQ(shares.coldest_expert, 3);
  EXPECT_DOUBLE_EQ(shares.coldest_share, 0);
  EXPECT_DOUBLE_EQ(shares.entropy_bits, 1.5);
  EXPECT_DOUBLE_EQ(shares.entropy_normalised, 0.75);
  EXPECT_DOUBLE_EQ(shares.variation, std::sqrt(0.125 / 4) * 4);  // squares of 1/4, 0, 0, -1/4
  EXPECT_DOUBLE_EQ(shares.max_over_mean, 2);
  EXPECT_DOUBLE_EQ(shares.never_called, 0.25);
}

TEST(ExpertShares, OfNothingAreZero) {
  const ExpertShares shares = expert_shares(Counts{0, 0});
  EXPECT_EQ(shares.n_calls, 0);
  EXPECT_EQ(shares.never_called, 0);
}

TEST(EffectiveExperts, LieBetweenOneAndK) {
  EXPECT_DOUBLE_EQ(effective_experts(std::vector<ExpertCall>{{0, 2.0F}}), 1);
  EXPECT_NEAR(effective_experts(std::vector<ExpertCall>{{0, 0.5F}, {1, 0.5F}}), 2, 1e-12);
  EXPECT_NEAR(effective_experts(std::vector<ExpertCall>{{0, 3.0F}, {1, 1.0F}}),
              std::exp(-(0.75 * std::log(0.75) + 0.25 * std::log(0.25))), 1e-12);
  EXPECT_EQ(effective_experts(std::vector<ExpertCall>{{0, 0.0F}}), 0);
}

TEST(ExpectedUnion, IsThatOfIndependentChoice) {
  // Rates 1, 1/2, 0 in batches of 2: 1 + 3/4.
  EXPECT_DOUBLE_EQ(expected_union(Counts{4, 2, 0}, 4, 2), 1.75);
}

TEST(JensenShannon, FromEqualToDisjoint) {
  EXPECT_DOUBLE_EQ(jensen_shannon_bits(Counts{3, 1}, Counts{6, 2}), 0);
  EXPECT_DOUBLE_EQ(jensen_shannon_bits(Counts{3, 0}, Counts{0, 5}), 1);
  // (1, 0) and (1/2, 1/2): mean (3/4, 1/4).
  EXPECT_NEAR(jensen_shannon_bits(Counts{2, 0}, Counts{2, 2}),
              (std::log2(4.0 / 3) + 0.5 * std::log2(2.0 / 3) + 0.5 * std::log2(2.0)) / 2, 1e-12);
  EXPECT_EQ(jensen_shannon_bits(Counts{0, 0}, Counts{2, 2}), 0);
  EXPECT_NEAR(jensen_shannon_of_chance(9, 100, 50), 8 * 0.03 / (8 * std::log(2.0)), 1e-12);
}

TEST(SpecificInformation, WeighsToMutualInformation) {
  // Two domains of 4 calls that share nothing: I is 1 bit.
  EXPECT_DOUBLE_EQ(specific_information_bits(Counts{4, 0}, Counts{4, 4}), 1);
  EXPECT_DOUBLE_EQ(specific_information_bits(Counts{2, 2}, Counts{4, 4}), 0);
  // 3:1 of 4:4.
  EXPECT_NEAR(specific_information_bits(Counts{3, 1}, Counts{4, 4}),
              0.75 * std::log2(1.5) + 0.25 * std::log2(0.5), 1e-12);
}

TEST(ExcessInDeviations, IsHypergeometric) {
  // 10 tokens, 4 of them call the expert; of 5 tokens of a part, all 4: mean 2, variance 5*.4*.6*5/9.
  EXPECT_NEAR(excess_in_deviations(4, 5, 4, 10), 2 / std::sqrt(5 * 0.4 * 0.6 * 5 / 9), 1e-12);
  EXPECT_EQ(excess_in_deviations(5, 5, 10, 10), 0);
}

}  // namespace
}  // namespace soli
