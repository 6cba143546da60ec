// What every policy must do, and what each of them is for.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.h"
#include "experts/cache_policy.h"
#include "experts/cache_simulator.h"
#include "experts/lfu_policy.h"
#include "experts/recency_policies.h"
#include "experts/shares_policy.h"
#include "experts/traces.h"

namespace soli {
namespace {

constexpr CachePolicyKind kKinds[] = {CachePolicyKind::kAuto, CachePolicyKind::kLru, CachePolicyKind::kLfu,
                                      CachePolicyKind::kLeastStale, CachePolicyKind::kShares};

/// One row that chose these.
void visit_one_row(CachePolicy& policy, int64_t layer, const std::vector<int32_t>& experts) {
  const std::vector<int32_t> calls(experts.size(), 1);
  policy.on_visit({.layer = layer, .n_tokens = 1, .experts = experts, .calls = calls});
}

class EveryPolicy : public testing::TestWithParam<CachePolicyKind> {};
INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, testing::ValuesIn(kKinds));

TEST_P(EveryPolicy, NamesItself) {
  const auto policy = make_cache_policy(GetParam(), {4, 8, 8});
  const std::set<std::string_view> names = {"auto", "lru", "lfu", "least-stale", "shares"};
  EXPECT_TRUE(names.contains(policy->name()));
  EXPECT_EQ(policy->candidates().empty(), policy->name() != "auto");
  EXPECT_EQ(policy->current() == policy->name(), policy->name() != "auto");
}

/// Residents without order, many of them pinned, others than the policy left there: a store may prefetch, and
/// pin for as long as it likes.
TEST_P(EveryPolicy, NeverEvictsWhatMayNotGo) {
  const CacheShape shape{3, 20, 17};
  const auto policy = make_cache_policy(GetParam(), shape);
  Rng rng(11);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> experts, calls;
    const auto n_tokens = static_cast<int64_t>(1 + rng.next_below(2) * rng.next_below(200));
    for (int32_t e = 0; e < 20; ++e) {
      if (rng.next_below(n_tokens > 1 ? 2 : 6) != 0) continue;
      experts.push_back(e);
      calls.push_back(static_cast<int32_t>(1 + rng.next_below(static_cast<uint64_t>(n_tokens))));
    }
    policy->on_visit({static_cast<int64_t>(rng.next_below(3)), n_tokens, experts, calls});
    std::vector<ExpertNumber> residents;
    for (ExpertNumber e = 0; e < 60; ++e) {
      if (rng.next_below(3) == 0) residents.push_back(rng.next_below(3) == 0 ? e : -1);
    }
    residents.push_back(59);
    for (size_t i = residents.size(); i > 1; --i) std::swap(residents[i - 1], residents[rng.next_below(i)]);
    while (std::any_of(residents.begin(), residents.end(), [](ExpertNumber e) { return e >= 0; })) {
      const size_t victim = policy->choose_victim(residents);
      ASSERT_LT(victim, residents.size());
      ASSERT_GE(residents[victim], 0);
      residents[victim] = -1;
    }
  }
}

TEST_P(EveryPolicy, ChoosesTheSameEveryTime) {
  const AccessTrace trace = drifting_trace({.n_layers = 4, .n_experts = 24, .n_tokens = 500}, 0.8, 0.1);
  std::vector<std::vector<ExpertNumber>> slots;
  for (int run = 0; run < 2; ++run) {
    const CacheShape shape{4, 24, 30};
    const auto policy = make_cache_policy(GetParam(), shape);
    CacheSimulator simulator(shape, *policy);
    AccessTrace::Reader reader(trace);
    while (const LayerVisit* visit = reader.next()) simulator.visit(*visit);
    slots.push_back(simulator.slots());
  }
  EXPECT_EQ(slots[0], slots[1]);
}

/// A visit alone uses more than there are slots; every slot is then used several times.
TEST_P(EveryPolicy, ServesAVisitThatNeedsMoreThanThereIs) {
  const CacheShape shape{2, 40, 3};
  const auto policy = make_cache_policy(GetParam(), shape);
  CacheSimulator simulator(shape, *policy);
  std::vector<int32_t> experts, calls;
  for (int32_t e = 0; e < 40; ++e) {
    experts.push_back(e);
    calls.push_back(1 + e % 3);
  }
  for (int step = 0; step < 20; ++step) {
    for (int64_t layer = 0; layer < 2; ++layer) simulator.visit({layer, 64, experts, calls});
  }
  EXPECT_EQ(simulator.total().requests, 20 * 2 * 40);
  const std::set<ExpertNumber> distinct(simulator.slots().begin(), simulator.slots().end());
  EXPECT_EQ(distinct.size(), 3U);
}

/// Each layer decodes within experts that fit; then a prompt touches every expert of every layer, mostly
/// those. What the first step after it hits is what the prompt left in place.
TEST_P(EveryPolicy, IsNotFloodedByALongPrompt) {
  const CacheShape shape{6, 32, 6 * 16};
  const auto policy = make_cache_policy(GetParam(), shape);
  CacheSimulator simulator(shape, *policy);
  std::vector<int32_t> all(32), calls(32, 1);
  for (int32_t e = 0; e < 32; ++e) all[static_cast<size_t>(e)] = e;
  for (int32_t e = 0; e < 12; ++e) calls[static_cast<size_t>(e)] = 30;
  const std::vector<int32_t> ones(4, 1);
  int64_t hits = 0;
  for (int chat = 0; chat < 3; ++chat) {
    for (int64_t layer = 0; layer < 6; ++layer) simulator.visit({layer, 128, all, calls});
    for (int32_t step = 0; step < 90; ++step) {
      const int32_t first = step % 3 * 4;
      const std::vector<int32_t> chosen = {first, first + 1, first + 2, first + 3};
      for (int64_t layer = 0; layer < 6; ++layer)
        hits += simulator.visit({layer, 1, chosen, ones}) * (chat == 2 && step < 3 ? 1 : 0);
    }
  }
  // While the last layer's visit lasts it holds all its 32 experts, 16 more than the layer's share.
  EXPECT_GE(hits, 6 * 12 - 16);
}

TEST(Lru, EvictsWhatWasUsedLongestAgo) {
  LruPolicy policy({2, 4, 4});
  visit_one_row(policy, 0, {1, 2});
  visit_one_row(policy, 1, {0, 3});
  visit_one_row(policy, 0, {1});
  const std::vector<ExpertNumber> residents = {1, 7, -1, 2, 4};
  EXPECT_EQ(policy.choose_victim(residents), 3U);  // 2, of the first visit
  const std::vector<ExpertNumber> later = {1, 7, -1, -1, 4};
  EXPECT_EQ(policy.choose_victim(later), 4U);  // 4 before 7: equal ages, the lower number
}

TEST(Lfu, EvictsWhatIsCalledLeastOften) {
  LfuPolicy policy({1, 4, 3}, 100);
  for (int i = 0; i < 10; ++i) visit_one_row(policy, 0, {2});
  for (int i = 0; i < 3; ++i) visit_one_row(policy, 0, {1});
  const std::vector<ExpertNumber> residents = {2, 1};
  EXPECT_EQ(policy.choose_victim(residents), 1U);
  for (int i = 0; i < 1000; ++i) visit_one_row(policy, 0, {1});  // ten half-lives
  EXPECT_EQ(policy.choose_victim(residents), 0U);
}

TEST(Lfu, OfTwoAlikeEvictsTheOneWhoseTurnIsFarther) {
  LfuPolicy policy({3, 1, 2}, 100);
  for (int step = 0; step < 3; ++step) {
    for (int64_t layer = 0; layer < 3; ++layer) visit_one_row(policy, layer, {0});
  }
  visit_one_row(policy, 0, {});
  const std::vector<ExpertNumber> residents = {1, 2};  // layer 1 comes next, then layer 2
  EXPECT_EQ(policy.choose_victim(residents), 1U);
}

TEST(LeastStale, EvictsByTurnsOfTheLayerAndThenTheFarthestTurn) {
  LeastStalePolicy policy({3, 4, 6});
  for (int64_t layer = 0; layer < 3; ++layer) visit_one_row(policy, layer, {0, 1});
  visit_one_row(policy, 0, {0, 2});
  visit_one_row(policy, 1, {0, 2});
  // Layer 1 is at its turn. 1 of layer 0 and 5 of layer 1 were left unused once; layer 1's next turn is
  // farther.
  const std::vector<ExpertNumber> residents = {0, 1, 2, 5, 8, 9};
  EXPECT_EQ(policy.choose_victim(residents), 3U);
  // 8 and 9 are of layer 2's last turn, as fresh as 0 and 2: they stay although used before 0 and 2.
  const std::vector<ExpertNumber> fresh = {8, 0, 9, 2};
  EXPECT_EQ(policy.choose_victim(fresh), 1U);
}

/// Layer 0 goes round in eight experts, layer 1 in two: LRU with equal shares of five would never hit in
/// layer 0.
TEST(Shares, GoWhereTheyGainMost) {
  const CacheShape shape{2, 16, 10};
  SharesPolicy policy(shape);
  CacheSimulator simulator(shape, policy);
  EXPECT_EQ(policy.shares(), (std::vector<int64_t>{5, 5}));
  const std::vector<int32_t> one = {1};
  int64_t late_hits = 0;
  Rng rng(3);
  for (int step = 0; step < 2000; ++step) {
    const std::vector<int32_t> wide = {static_cast<int32_t>(rng.next_below(8))};
    const std::vector<int32_t> narrow = {static_cast<int32_t>(rng.next_below(2))};
    const int64_t hits = simulator.visit({0, 1, wide, one}) + simulator.visit({1, 1, narrow, one});
    if (step >= 1000) late_hits += hits;
  }
  EXPECT_EQ(policy.shares(), (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(late_hits, 2000);
}

TEST(Auto, FollowsWhatTheTraceRewards) {
  const CacheShape shape{6, 32, 6 * 8};
  const auto policy = make_cache_policy(CachePolicyKind::kAuto, shape);
  CacheSimulator simulator(shape, *policy);
  const auto run = [&](const AccessTrace& trace) {
    AccessTrace::Reader reader(trace);
    while (const LayerVisit* visit = reader.next()) simulator.visit(*visit);
  };
  const auto rate_of = [&](std::string_view name) {
    for (const PolicyRate& candidate : policy->candidates()) {
      if (candidate.name == name) return candidate.hit_rate;
    }
    ADD_FAILURE() << name;
    return 0.0;
  };
  run(zipf_trace({.n_layers = 6, .n_tokens = 2000}, 1));
  EXPECT_TRUE(policy->current() == "lfu-2048" || policy->current() == "lfu-256") << policy->current();
  EXPECT_GT(rate_of("lfu-2048"), rate_of("lru") + 0.05);
  run(drifting_trace({.n_layers = 6, .n_tokens = 600, .seed = 2}, 1, 0.2));
  EXPECT_EQ(policy->current(), "lfu-16");
  EXPECT_GT(rate_of("lfu-16"), rate_of("lfu-2048") + 0.05);
}

}  // namespace
}  // namespace soli
