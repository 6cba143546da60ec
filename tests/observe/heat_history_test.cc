// Windows and decay of heat, on numbers that can be checked by hand.
#include "observe/heat_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace soli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kSeconds = 0;  // tiers
constexpr size_t kTenSeconds = 1;

HeatHistory::Options two_layers_of_two() {
  return {.n_layers = 2,
          .n_experts = 2,
          .n_figures = 1,
          .max_bytes = 1 << 20,
          .half_life_seconds = 2,
          .start_ms = 100'000};
}

std::vector<ExpertWork> calls_of(std::initializer_list<int64_t> calls) {
  std::vector<ExpertWork> works;
  for (const int64_t n : calls) works.push_back({.calls = n, .busy_ns = n * 1'000'000'000});
  return works;
}

std::vector<int64_t> begins_of(const HeatHistory& history, size_t tier) {
  std::vector<int64_t> begins;
  for (const HeatWindow& window : history.windows(tier)) begins.push_back(window.begin_ms);
  return begins;
}

TEST(HeatHistoryTest, DifferencesGoToTheWindowInWhichTheirMiddleLies) {
  HeatHistory history(two_layers_of_two());
  const double amount[] = {1.5};
  history.add(101'000, calls_of({1, 0, 0, 1}), amount);
  history.add(102'010, calls_of({3, 0, 1, 2}), amount);  // a little late
  history.add(102'990, calls_of({3, 0, 1, 2}), amount);  // a little early
  EXPECT_THAT(begins_of(history, kSeconds), ElementsAre(100'000, 101'000, 102'000));
  EXPECT_THAT(begins_of(history, kTenSeconds), ElementsAre(100'000));
  const auto& windows = history.windows(kSeconds);
  EXPECT_THAT(windows[0].calls, ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(windows[1].calls, ElementsAre(2, 0, 1, 1));
  EXPECT_EQ(windows[1].n_calls, 4);
  EXPECT_EQ(windows[1].counted_ms, 1010);
  EXPECT_TRUE(windows[1].complete);
  EXPECT_THAT(windows[2].calls, IsEmpty()) << "nothing is kept of no calls";
  EXPECT_FALSE(windows[2].complete);
  EXPECT_THAT(history.windows(kTenSeconds)[0].calls, ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(history.windows(kTenSeconds)[0].figures, ElementsAre(4.5));
}

TEST(HeatHistoryTest, HeatFallsToHalfInAHalfLife) {
  HeatHistory history(two_layers_of_two());
  const double none[] = {0};
  history.add(101'000, calls_of({8, 0, 0, 4}), none);
  EXPECT_THAT(history.heat(), ElementsAre(8, 0, 0, 4));
  history.add(103'000, calls_of({8, 2, 0, 4}), none);
  EXPECT_THAT(history.heat(), ElementsAre(4, 2, 0, 2)) << "two seconds";
  history.add(104'000, calls_of({8, 2, 0, 4}), none);
  EXPECT_DOUBLE_EQ(history.heat()[0], 4 * std::exp2(-0.5));
  EXPECT_DOUBLE_EQ(history.busy_heat()[0], 4 * std::exp2(-0.5)) << "a second for each call";
}

TEST(HeatHistoryTest, CountersThatBeginAnewCountFromZero) {
  HeatHistory history(two_layers_of_two());
  const double none[] = {0};
  history.add(101'000, calls_of({8, 5, 0, 0}), none);
  history.add(102'000, calls_of({3, 5, 0, 0}), none);
  EXPECT_THAT(history.windows(kSeconds)[1].calls, ElementsAre(3, 0, 0, 0));
  EXPECT_THAT(history.sum(kSeconds, 0, INT64_MAX).calls, ElementsAre(11, 5, 0, 0));
}

TEST(HeatHistoryTest, SumsTheWindowsOfATime) {
  HeatHistory history(two_layers_of_two());
  const double none[] = {0};
  for (int64_t i = 1; i <= 5; ++i) history.add(100'000 + i * 1000, calls_of({i, 2 * i, 0, 0}), none);
  const HeatSum sum = history.sum(kSeconds, 101'000, 103'000);
  EXPECT_EQ(sum.n_windows, 2);
  EXPECT_EQ(sum.begin_ms, 101'000);
  EXPECT_EQ(sum.end_ms, 103'000);
  EXPECT_EQ(sum.counted_ms, 2000);
  EXPECT_THAT(sum.calls, ElementsAre(2, 4, 0, 0));
  const HeatSum nothing = history.sum(kSeconds, 101'001, 102'000);
  EXPECT_EQ(nothing.n_windows, 0);
  EXPECT_THAT(nothing.calls, ElementsAre(0, 0, 0, 0));
}

TEST(HeatHistoryTest, BalanceIsKeptOfWindowsThatAreComplete) {
  HeatHistory history(two_layers_of_two());
  const double none[] = {0};
  history.add(101'000, calls_of({4, 4, 0, 0}), none);
  const LayerBalance open = history.balance_of(history.windows(kSeconds)[0], 0);
  EXPECT_FLOAT_EQ(open.entropy, 1);
  EXPECT_FLOAT_EQ(open.variation, 0);
  history.add(102'000, calls_of({8, 4, 0, 0}), none);
  history.add(103'000, calls_of({8, 4, 0, 0}), none);
  const auto& windows = history.windows(kSeconds);
  ASSERT_EQ(windows[1].balance.size(), 2U);
  EXPECT_FLOAT_EQ(history.balance_of(windows[1], 0).entropy, 0) << "one expert has all calls";
  EXPECT_FLOAT_EQ(history.balance_of(windows[1], 0).variation, 1);
  EXPECT_FLOAT_EQ(history.balance_of(windows[1], 0).hottest_share, 1);
  EXPECT_TRUE(std::isnan(history.balance_of(windows[1], 1).entropy)) << "nothing was called";
  EXPECT_TRUE(std::isnan(history.balance_of(windows[2], 0).entropy));
}

TEST(HeatHistoryTest, ACountAfterALongSleepIsOneWindow) {
  HeatHistory history(two_layers_of_two());
  const double none[] = {0};
  history.add(101'000, calls_of({1, 0, 0, 0}), none);
  history.add(161'000, calls_of({2, 0, 0, 0}), none);
  EXPECT_THAT(begins_of(history, kSeconds), ElementsAre(100'000, 131'000));
  EXPECT_EQ(history.windows(kSeconds)[1].counted_ms, 60'000);
}

/// Two days, in which all experts are called all the time.
TEST(HeatHistoryTest, MemoryIsBoundedWhateverTheUptime) {
  HeatHistory::Options options{
      .n_layers = 4, .n_experts = 16, .n_figures = 70, .max_bytes = 300'000, .start_ms = 1'000'000'000};
  HeatHistory history(options);
  std::vector<ExpertWork> totals(64);
  const std::vector<double> amounts(70, 1.0);
  int64_t most_bytes = 0;
  int64_t time_ms = options.start_ms;
  for (int64_t i = 1; i <= 2 * 86'400; ++i) {
    time_ms += 1000;
    for (ExpertWork& work : totals) ++work.calls;
    history.add(time_ms, totals, amounts);
    if (i % 600 == 0) most_bytes = std::max(most_bytes, history.bytes());
  }
  EXPECT_LE(most_bytes, options.max_bytes);
  EXPECT_GT(most_bytes, options.max_bytes * 3 / 4) << "and is made use of";
  for (size_t tier = 0; tier < kHeatTiers.size(); ++tier) {
    EXPECT_EQ(static_cast<int64_t>(history.windows(tier).size()), history.max_windows(tier));
    EXPECT_GE(history.max_windows(tier), HeatHistory::kMinWindows);
    EXPECT_LT(history.max_windows(tier), kHeatTiers[tier].max_windows);
    const HeatWindow& window = history.windows(tier)[1];
    EXPECT_EQ(window.n_calls, 64 * kHeatTiers[tier].window_ms / 1000) << "every second is in it once";
    EXPECT_EQ(window.begin_ms % kHeatTiers[tier].window_ms, 0);
  }
}

TEST(HeatHistoryTest, WhereThereIsRoomAllWindowsAreKept) {
  HeatHistory::Options options = two_layers_of_two();
  options.max_bytes = HeatHistory::min_bytes(options);
  for (size_t tier = 0; tier < kHeatTiers.size(); ++tier) {
    EXPECT_EQ(HeatHistory(options).max_windows(tier), HeatHistory::kMinWindows);
    EXPECT_EQ(HeatHistory(two_layers_of_two()).max_windows(tier), kHeatTiers[tier].max_windows);
  }
}

TEST(HeatHistoryTest, AModelWithoutExpertsHasFiguresOnly) {
  HeatHistory history({.n_figures = 1, .max_bytes = 1 << 20});
  const double amount[] = {2};
  history.add(1000, {}, amount);
  history.add(2000, {}, amount);
  EXPECT_THAT(history.windows(kTenSeconds)[0].figures, ElementsAre(4));
  EXPECT_THAT(history.sum(kSeconds, 0, 10'000).calls, IsEmpty());
}

}  // namespace
}  // namespace soli
