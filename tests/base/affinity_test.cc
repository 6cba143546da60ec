// Which processors there are, and a team whose members keep to one each.

#include "base/affinity.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <vector>

#include "base/thread_team.h"

namespace soli {
namespace {

TEST(Affinity, ProcessorsAreCountedAndNamedOnce) {
  const std::vector<int> cpus = usable_cpus();
  EXPECT_EQ(static_cast<int>(cpus.size()), usable_cores());
  const std::set<int> distinct(cpus.begin(), cpus.end());
  EXPECT_EQ(distinct.size(), cpus.size());
  const cpu_set_t mask = affinity_of(::pthread_self()).value();
  for (const int cpu : cpus) EXPECT_TRUE(CPU_ISSET(cpu, &mask));
}

TEST(Affinity, PinnedMembersHaveAProcessorEachUntilTheTeamGoes) {
  const cpu_set_t before = affinity_of(::pthread_self()).value();
  const int n = usable_cores();
  {
    ThreadTeam team(n);
    EXPECT_FALSE(team.is_pinned());
    ASSERT_TRUE(team.pin());
    EXPECT_TRUE(team.is_pinned());
    std::vector<std::atomic<int>> cpu_of(static_cast<size_t>(n));
    for (auto& cpu : cpu_of) cpu = -1;
    // All members meet in one phase.
    std::atomic<int> n_there{0};
    team.parallel_for(n, 1, [&](int64_t, int64_t, int member) {
      n_there.fetch_add(1);
      while (n_there.load() < n) ::sched_yield();
      cpu_of[static_cast<size_t>(member)] = ::sched_getcpu();
      EXPECT_EQ(usable_cores(), 1);
    });
    std::set<int> distinct;
    for (const auto& cpu : cpu_of) distinct.insert(cpu.load());
    EXPECT_EQ(static_cast<int>(distinct.size()), n);
    EXPECT_EQ(distinct.count(-1), 0U);
  }
  const cpu_set_t after = affinity_of(::pthread_self()).value();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Affinity, MoreThreadsThanProcessorsCannotBePinned) {
  const cpu_set_t before = affinity_of(::pthread_self()).value();
  ASSERT_TRUE(set_affinity(::pthread_self(), only_cpu(usable_cpus().front())));
  ThreadTeam team(2);
  const Status refused = team.pin();
  ASSERT_TRUE(set_affinity(::pthread_self(), before));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("2 threads cannot be pinned"), std::string::npos);
  EXPECT_FALSE(team.is_pinned());
  std::atomic<int> n_items{0};  // it works all the same
  team.parallel_for(10, 1, [&](int64_t, int64_t, int) { n_items.fetch_add(1); });
  EXPECT_EQ(n_items.load(), 10);
}

}  // namespace
}  // namespace soli
