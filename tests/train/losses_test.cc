#include "train/losses.h"

#include <gtest/gtest.h>

#include <vector>

namespace soli {
namespace {

TEST(BalanceLoss, IsOneWhenUniform) {
  const std::vector<float> probabilities(16 * 8, 1.0F / 8);
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < 16; ++t) ids.push_back(t % 8);
  EXPECT_DOUBLE_EQ(balance_loss({probabilities.data(), 16, 8}, ids), 1.0);
}

TEST(BalanceLoss, IsTheNumberOfExpertsWhenAllGoToOne) {
  std::vector<float> probabilities(16 * 8, 0.0F);
  for (size_t t = 0; t < 16; ++t) probabilities[t * 8 + 3] = 1;
  EXPECT_DOUBLE_EQ(balance_loss({probabilities.data(), 16, 8}, std::vector<int32_t>(16, 3)), 8.0);
}

}  // namespace
}  // namespace soli
