// What is counted for which expert, by one thread and by several.

#include "ops/expert_meter.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace soli {
namespace {

int64_t meter_clock_ns = 0;
int64_t read_meter_clock() { return meter_clock_ns; }

TEST(ExpertMeter, CountsNothingUntilSomethingIsDone) {
  ExpertMeter meter(2, 3);
  EXPECT_EQ(meter.n_layers(), 2);
  EXPECT_EQ(meter.n_experts(), 3);
  for (int64_t e = 0; e < 3; ++e) {
    EXPECT_EQ(meter.read_over_layers(e).calls, 0);
    EXPECT_EQ(meter.read_over_layers(e).busy_ns, 0);
  }
}

TEST(ExpertMeter, ALapIsTheTimeSinceTheOneBefore) {
  ExpertMeter meter(2, 3, &read_meter_clock);
  meter_clock_ns = 1000;
  ExpertLaps laps(meter.layer(1));
  meter_clock_ns += 7;
  laps.lap(2);
  meter_clock_ns += 30;
  laps.lap(0);
  meter_clock_ns += 100;
  laps.lap(2);
  meter_clock_ns += 5000;  // that nobody claims
  EXPECT_EQ(meter.read(1, 0).busy_ns, 30);
  EXPECT_EQ(meter.read(1, 1).busy_ns, 0);
  EXPECT_EQ(meter.read(1, 2).busy_ns, 107);
  EXPECT_EQ(meter.read(0, 2).busy_ns, 0);
}

TEST(ExpertMeter, WithoutOneNothingIsCountedAndNoClockIsRead) {
  const ExpertMeter::Layer none;
  EXPECT_FALSE(none);
  ExpertLaps laps(none);
  laps.lap(5);
}

TEST(ExpertMeter, SumsOverLayersAndThreads) {
  constexpr int64_t kTimes = 1000;
  ExpertMeter meter(3, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&meter] {
      for (int64_t i = 0; i < kTimes; ++i) {
        meter.layer(i % 3).add_calls(1, 2);
        meter.layer(i % 3).add_busy(1, 5);
      }
    });
  }
  while (meter.read_over_layers(1).calls < kTimes) std::this_thread::yield();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(meter.read_over_layers(0).calls, 0);
  EXPECT_EQ(meter.read_over_layers(1).calls, 4 * kTimes * 2);
  EXPECT_EQ(meter.read_over_layers(1).busy_ns, 4 * kTimes * 5);
  EXPECT_EQ(meter.read(0, 1).calls, 4 * 334 * 2);
}

TEST(ExpertMeter, TheClockDoesNotGoBack) {
  const int64_t before = ExpertMeter::steady_ns();
  EXPECT_LE(before, ExpertMeter::steady_ns());
}

}  // namespace
}  // namespace soli
