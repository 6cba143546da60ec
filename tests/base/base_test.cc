#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/budget.h"
#include "base/slab.h"
#include "base/thread_team.h"
#include "base/units.h"

namespace soli {
namespace {

TEST(Units, ParseBytesTakesANumberWithAUnit) {
  EXPECT_EQ(parse_bytes("--memory", "12GiB").value(), 12 * kGiB);
  EXPECT_EQ(parse_bytes("--memory", "1.5KiB").value(), 1536);
  EXPECT_EQ(parse_bytes("--memory", "2GB").value(), 2'000'000'000);
  EXPECT_EQ(parse_bytes("--memory", "4096B").value(), 4096);
}

TEST(Units, ParseBytesRefusesWhatIsNotAnAmount) {
  for (const char* text :
       {"", "12", "GiB", "-1GiB", "0GiB", "nanGiB", "infGiB", "1e300GiB", "12 GiB", "12gib", "1GiBx"}) {
    const auto parsed = parse_bytes("--memory", text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_NE(parsed.error().message.find("--memory"), std::string::npos);
    EXPECT_NE(parsed.error().message.find("12GiB"), std::string::npos) << "says what is allowed";
  }
}

TEST(Units, FormatHasThreeDigits) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(3 * kGiB + kGiB / 2), "3.50 GiB");
  EXPECT_EQ(format_count(14.4e6), "14.4 M");
  EXPECT_EQ(format_count(12), "12");
}

TEST(Budget, RefusesWhatDoesNotFitAndNamesIt) {
  Budget budget(100);
  ASSERT_TRUE(budget.charge("weights", 80));
  const Status refused = budget.charge("kv pages", 21);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("kv pages"), std::string::npos);
  EXPECT_NE(refused.error().message.find("100 B"), std::string::npos);
  budget.release("weights", 80);
  EXPECT_TRUE(budget.charge("kv pages", 100));
  EXPECT_EQ(budget.peak_bytes(), 100);
}

TEST(Slab, IsZeroedAlignedAndCharged) {
  Budget budget;
  {
    auto slab = Slab::allocate(budget, "weights", 5 * kMiB);
    ASSERT_TRUE(slab);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slab->data()) % (2 * kMiB), 0U);
    EXPECT_GE(slab->bytes(), 5 * kMiB);
    EXPECT_EQ(slab->data()[5 * kMiB - 1], std::byte{0});
    EXPECT_EQ(budget.used_bytes(), slab->bytes());
  }
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(ThreadTeam, CoversEveryItemOnceForAnyTeamAndGrain) {
  for (const int n_threads : {1, 2, 3, 4}) {
    ThreadTeam team(n_threads);
    for (const int64_t grain : {1, 3, 1000}) {
      std::vector<std::atomic<int>> calls(257);
      team.parallel_for(257, grain, [&](int64_t begin, int64_t end, int member) {
        ASSERT_LT(member, n_threads);
        for (int64_t i = begin; i < end; ++i) calls[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadTeam, ShrinkingRangesCoverEveryItemOnceInMultiplesOfTheGrain) {
  for (const int n_threads : {1, 2, 3}) {
    ThreadTeam team(n_threads);
    for (const int64_t n : {0, 1, 3, 4, 5, 100, 1003}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      team.parallel_for_shrinking(n, 4, [&](int64_t begin, int64_t end, int member) {
        EXPECT_TRUE(0 <= member && member < n_threads);
        EXPECT_LT(begin, end);
        EXPECT_EQ(begin % 4, 0);
        EXPECT_TRUE(end % 4 == 0 || end == n);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const std::atomic<int>& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadTeam, ManyPhasesInARowAndAfterSleeping) {
  ThreadTeam team(4);
  std::atomic<int64_t> sum{0};
  for (int phase = 0; phase < 2000; ++phase) {
    if (phase == 1000) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    team.parallel_for(8, 1, [&](int64_t begin, int64_t, int) { sum.fetch_add(begin); });
  }
  EXPECT_EQ(sum.load(), 2000 * 28);
}

TEST(ThreadTeam, TwoCallersShareOneTeam) {
  ThreadTeam team(3);
  std::atomic<int64_t> sum{0};
  const auto run = [&] {
    for (int phase = 0; phase < 500; ++phase) {
      team.parallel_for(16, 2, [&](int64_t begin, int64_t end, int) { sum.fetch_add(end - begin); });
    }
  };
  std::thread other(run);
  run();
  other.join();
  EXPECT_EQ(sum.load(), 2 * 500 * 16);
}

}  // namespace
}  // namespace soli
