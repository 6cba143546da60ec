// When an expert counts as hot, and when no longer.
#include "observe/heat_alarms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soli {
namespace {

/// Sixteen experts, of which one layer's expert 3 has that share of 1600 calls.
std::vector<double> heat_with_share(double share, double n_calls = 1600) {
  std::vector<double> heat(32, n_calls / 16);
  for (size_t e = 16; e < 32; ++e) heat[e] = e == 19 ? n_calls * share : n_calls * (1 - share) / 15;
  return heat;
}

HeatAlarms::Options two_of_sixteen() {
  return {.n_layers = 2, .n_experts = 16, .experts_per_token = 2, .factor = 4};
}

TEST(HeatAlarmsTest, OpenAboveAndCloseFarBelow) {
  HeatAlarms alarms(two_of_sixteen());
  EXPECT_DOUBLE_EQ(alarms.raise_factor(), 4);
  EXPECT_DOUBLE_EQ(alarms.clear_factor(), 2);
  EXPECT_TRUE(alarms.update(1000, heat_with_share(3.9 / 16)).empty());
  const auto opened = alarms.update(2000, heat_with_share(4.1 / 16));
  ASSERT_EQ(opened.size(), 1U);
  EXPECT_EQ(opened[0].layer, 1);
  EXPECT_EQ(opened[0].expert, 3);
  EXPECT_EQ(opened[0].since_ms, 2000);
  EXPECT_FALSE(opened[0].until_ms);
  EXPECT_TRUE(alarms.is_open(1, 3));
  for (const double factor : {3.9, 5.0, 3.0, 4.1, 2.1})  // in between nothing changes
    EXPECT_TRUE(alarms.update(3000, heat_with_share(factor / 16)).empty());
  const auto closed = alarms.update(9000, heat_with_share(1.9 / 16));
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].until_ms, 9000);
  EXPECT_DOUBLE_EQ(closed[0].peak_share, 5.0 / 16);
  EXPECT_DOUBLE_EQ(closed[0].share, 1.9 / 16);
  EXPECT_EQ(alarms.n_open(), 0);
  EXPECT_EQ(alarms.n_raised(), 1);
  ASSERT_EQ(alarms.past().size(), 1U);
  EXPECT_TRUE(alarms.update(9500, heat_with_share(3.9 / 16)).empty());
}

TEST(HeatAlarmsTest, NeedEnoughCallsAndEndWhenThereAreFew) {
  HeatAlarms alarms(two_of_sixteen());
  EXPECT_DOUBLE_EQ(alarms.min_calls(), 320);
  EXPECT_TRUE(alarms.update(1000, heat_with_share(0.9, 319)).empty());
  EXPECT_EQ(alarms.update(2000, heat_with_share(0.9, 321)).size(), 1U);
  EXPECT_TRUE(alarms.update(3000, heat_with_share(0.9, 41)).empty());
  EXPECT_EQ(alarms.update(4000, heat_with_share(0.9, 39)).size(), 1U) << "an eighth";
  EXPECT_EQ(alarms.n_open(), 0);
  EXPECT_TRUE(alarms.update(5000, std::vector<double>(32)).empty());
}

TEST(HeatAlarmsTest, TheFactorIsOneThatCanBeReached) {
  const auto factors = [](int64_t n_experts, int64_t per_token, double factor) {
    const HeatAlarms alarms(
        {.n_layers = 1, .n_experts = n_experts, .experts_per_token = per_token, .factor = factor});
    return std::pair(alarms.raise_factor(), alarms.clear_factor());
  };
  EXPECT_EQ(factors(8, 2, 4), std::pair(2.5, 1.5)) << "a share of 4 times the fair one would be all tokens";
  EXPECT_EQ(factors(128, 8, 4), std::pair(4.0, 2.0));
  EXPECT_EQ(factors(128, 8, 7), std::pair(7.0, 3.0));
  HeatAlarms all({.n_layers = 1, .n_experts = 2, .experts_per_token = 2});
  const double even[] = {1000, 1000};
  EXPECT_TRUE(all.update(1, even).empty()) << "every token calls every expert";
}

TEST(HeatAlarmsTest, WhatIsOverIsForgottenInTime) {
  HeatAlarms alarms(two_of_sixteen());
  for (int64_t i = 0; i < 100; ++i) {
    alarms.update(2 * i, heat_with_share(0.5));
    alarms.update(2 * i + 1, heat_with_share(0.05));
  }
  EXPECT_EQ(alarms.past().size(), HeatAlarms::kMaxPast);
  EXPECT_EQ(alarms.past().front().until_ms, 199);
  EXPECT_EQ(alarms.n_raised(), 100);
}

TEST(HeatAlarmsTest, TheHottestComesFirst) {
  HeatAlarms alarms(two_of_sixteen());
  std::vector<double> heat = heat_with_share(0.4);
  heat[5] = 2000;
  alarms.update(1000, heat);
  const auto open = alarms.open();
  ASSERT_EQ(open.size(), 2U);
  EXPECT_EQ(open[0].layer, 0);
  EXPECT_EQ(open[0].expert, 5);
  EXPECT_GT(open[0].share, open[1].share);
}

}  // namespace
}  // namespace soli
