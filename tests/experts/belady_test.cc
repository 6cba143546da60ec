#include "experts/belady.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/rng.h"
#include "experts/traces.h"

namespace soli {
namespace {

AccessTrace random_trace(Rng& rng, int64_t n_layers, int64_t n_experts, int n_visits, uint64_t sparsity) {
  AccessTrace trace(n_layers, n_experts);
  for (int i = 0; i < n_visits; ++i) {
    std::vector<int32_t> experts, calls;
    for (int32_t e = 0; e < n_experts; ++e) {
      if (rng.next_below(sparsity) != 0) continue;
      experts.push_back(e);
      calls.push_back(1);
    }
    trace.record({i % n_layers, 1, experts, calls});
  }
  return trace;
}

/// The most hits over every way to evict, with sets of experts as bits.
int64_t most_hits(const AccessTrace& trace, int n_slots) {
  std::map<uint32_t, int64_t> best = {{0, 0}};  // what may be there: hits so far
  AccessTrace::Reader reader(trace);
  while (const LayerVisit* visit = reader.next()) {
    uint32_t used = 0;
    for (const int32_t e : visit->experts)
      used |= 1U << static_cast<uint32_t>(visit->layer * trace.n_experts() + e);
    std::map<uint32_t, int64_t> next;
    for (const auto& [there, hits] : best) {
      const uint32_t after = there | used;
      for (uint32_t kept = after;; kept = (kept - 1) & after) {
        const bool has_used = (kept & used) == used || std::popcount(used) > n_slots;
        if (std::popcount(kept) <= n_slots && has_used) {
          int64_t& most = next[kept];
          most = std::max(most, hits + std::popcount(there & used));
        }
        if (kept == 0) break;
      }
    }
    best = std::move(next);
  }
  int64_t most = 0;
  for (const auto& [there, hits] : best) most = std::max(most, hits);
  return most;
}

TEST(Belady, IsTheMostThatAnyEvictionHits) {
  Rng rng(4);
  for (int round = 0; round < 150; ++round) {
    const AccessTrace trace = random_trace(rng, 1 + round % 2, 3 + round % 3, 9, 2 + round % 2);
    for (int n_slots = 1; n_slots <= 5; ++n_slots) {
      const CacheCounts counts = belady_counts(trace, n_slots);
      EXPECT_EQ(counts.hits, most_hits(trace, n_slots)) << "round " << round << " slots " << n_slots;
    }
  }
}

TEST(Belady, IsNeverBelowAPolicy) {
  Rng rng(6);
  for (int round = 0; round < 40; ++round) {
    const AccessTrace trace = random_trace(rng, 3, 12, 300, 2 + rng.next_below(4));
    const CacheShape shape{3, 12, static_cast<int64_t>(1 + rng.next_below(36))};
    const CacheCounts bound = belady_counts(trace, shape.n_slots);
    for (const auto kind : {CachePolicyKind::kAuto, CachePolicyKind::kLru, CachePolicyKind::kLfu,
                            CachePolicyKind::kLeastStale, CachePolicyKind::kShares}) {
      const auto policy = make_cache_policy(kind, shape);
      CacheSimulator simulator(shape, *policy);
      AccessTrace::Reader reader(trace);
      while (const LayerVisit* visit = reader.next()) simulator.visit(*visit);
      EXPECT_EQ(simulator.total().requests, bound.requests);
      EXPECT_LE(simulator.total().hits, bound.hits) << policy->name() << " slots " << shape.n_slots;
    }
  }
}

TEST(Belady, HitsAllButTheFirstCallsWhereEverythingFits) {
  Rng rng(8);
  const AccessTrace trace = random_trace(rng, 2, 10, 400, 3);
  const CacheCounts counts = belady_counts(trace, 20);
  EXPECT_EQ(counts.hits, counts.requests - 20);
}

TEST(BestStatic, IsTheBestOfAllSets) {
  Rng rng(9);
  for (int round = 0; round < 30; ++round) {
    const AccessTrace trace = random_trace(rng, 2, 4, 12, 2);
    for (int n_slots = 1; n_slots <= 8; ++n_slots) {
      int64_t most = 0;
      for (uint32_t set = 0; set < 256; ++set) {
        if (std::popcount(set) != n_slots) continue;
        int64_t hits = 0;
        AccessTrace::Reader reader(trace);
        while (const LayerVisit* visit = reader.next()) {
          for (const int32_t e : visit->experts) hits += set >> (visit->layer * 4 + e) & 1;
        }
        most = std::max(most, hits);
      }
      EXPECT_EQ(best_static_counts(trace, n_slots).hits, most);
    }
  }
}

TEST(Belady, ReadsALongTraceInLittleTime) {
  const AccessTrace trace = uniform_trace({.n_layers = 4, .n_experts = 128, .n_tokens = 20000});
  const double rate = belady_counts(trace, 256).rate();
  EXPECT_GT(rate, 0.5);  // twice what any policy without the future would have is plausible, all of it is not
  EXPECT_LT(rate, 0.95);
}

}  // namespace
}  // namespace soli
