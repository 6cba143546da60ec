#include "experts/cache_simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/rng.h"
#include "experts/lfu_policy.h"
#include "experts/recency_policies.h"

namespace soli {
namespace {

struct Visit {
  int64_t layer;
  int64_t n_tokens;
  std::vector<int32_t> experts, calls;
};

std::vector<Visit> random_visits(Rng& rng, int64_t n_layers, int64_t n_experts, bool many_rows) {
  std::vector<Visit> visits;
  for (int64_t i = 0; i < 60 * n_layers; ++i) {
    Visit visit{i % n_layers, 1, {}, {}};
    if (many_rows && rng.next_below(5) == 0) visit.n_tokens = static_cast<int64_t>(2 + rng.next_below(20));
    for (int32_t e = 0; e < n_experts; ++e) {
      if (rng.next_below(static_cast<uint64_t>(e) + (visit.n_tokens > 1 ? 1 : 2)) != 0) continue;
      visit.experts.push_back(e);
      visit.calls.push_back(static_cast<int32_t>(1 + rng.next_below(static_cast<uint64_t>(visit.n_tokens))));
    }
    visits.push_back(visit);
  }
  return visits;
}

/// The same cache in the plainest words: sets of numbers, and a worth that is computed from the whole past.
class NaiveCache {
 public:
  using Worth = std::function<double(const std::vector<Visit>& past, ExpertNumber expert)>;
  NaiveCache(int64_t n_experts, size_t n_slots, Worth worth)
      : n_experts_(n_experts), n_slots_(n_slots), worth_(std::move(worth)) {}

  int64_t visit(const Visit& visit) {
    past_.push_back(visit);
    std::set<ExpertNumber> pinned;
    std::vector<ExpertNumber> missing;
    for (const int32_t e : visit.experts) {
      const auto number = static_cast<ExpertNumber>(visit.layer * n_experts_ + e);
      if (residents_.contains(number)) {
        pinned.insert(number);
      } else {
        missing.push_back(number);
      }
    }
    const auto hits = static_cast<int64_t>(pinned.size());
    for (const ExpertNumber number : missing) {
      if (residents_.size() == n_slots_) {
        if (pinned.size() == n_slots_) pinned.clear();
        evict(pinned);
      }
      residents_.insert(number);
      pinned.insert(number);
    }
    return hits;
  }

 private:
  void evict(const std::set<ExpertNumber>& pinned) {
    ExpertNumber victim = -1;
    double least = 0;
    for (const ExpertNumber expert : residents_) {  // ascending
      if (pinned.contains(expert)) continue;
      const double worth = worth_(past_, expert);
      if (victim >= 0 && worth >= least) continue;
      victim = expert;
      least = worth;
    }
    residents_.erase(victim);
  }

  int64_t n_experts_;
  size_t n_slots_;
  Worth worth_;
  std::vector<Visit> past_;
  std::set<ExpertNumber> residents_;
};

bool uses(const Visit& visit, int64_t n_experts, ExpertNumber expert) {
  return visit.layer == expert / n_experts && std::binary_search(visit.experts.begin(), visit.experts.end(),
                                                                 static_cast<int32_t>(expert % n_experts));
}

void compare(const CacheShape& shape, CachePolicy& policy, const NaiveCache::Worth& worth,
             const std::vector<Visit>& visits) {
  CacheSimulator simulator(shape, policy);
  NaiveCache naive(shape.n_experts, static_cast<size_t>(shape.n_slots), worth);
  std::map<int64_t, CacheCounts> expected;
  for (size_t i = 0; i < visits.size(); ++i) {
    const Visit& visit = visits[i];
    const int64_t hits = simulator.visit({visit.layer, visit.n_tokens, visit.experts, visit.calls});
    ASSERT_EQ(hits, naive.visit(visit)) << "visit " << i << " slots " << shape.n_slots;
    expected[visit.layer].hits += hits;
    expected[visit.layer].requests += static_cast<int64_t>(visit.experts.size());
  }
  CacheCounts total;
  for (int64_t layer = 0; layer < shape.n_layers; ++layer) {
    EXPECT_EQ(simulator.layer(layer).hits, expected[layer].hits);
    EXPECT_EQ(simulator.layer(layer).requests, expected[layer].requests);
    total.hits += expected[layer].hits;
    total.requests += expected[layer].requests;
  }
  EXPECT_EQ(simulator.total().hits, total.hits);
  EXPECT_EQ(simulator.total().requests, total.requests);
}

TEST(CacheSimulator, HitsAsANaiveLruDoes) {
  const NaiveCache::Worth last_use = [](const std::vector<Visit>& past, ExpertNumber expert) {
    for (size_t i = past.size(); i > 0; --i) {
      if (uses(past[i - 1], 7, expert)) return static_cast<double>(i);
    }
    return 0.0;
  };
  Rng rng(1);
  for (int64_t n_slots = 1; n_slots <= 14; ++n_slots) {
    const CacheShape shape{2, 7, n_slots};
    LruPolicy policy(shape);
    compare(shape, policy, last_use, random_visits(rng, 2, 7, false));
  }
}

TEST(CacheSimulator, HitsAsANaiveLfuDoes) {
  constexpr double kHalfLife = 6.3;
  const NaiveCache::Worth expected_wait = [](const std::vector<Visit>& past, ExpertNumber expert) {
    const double decay = std::pow(2.0, -1 / kHalfLife);
    double heat = 0;
    for (const Visit& visit : past) {
      if (visit.layer != expert / 7) continue;
      heat *= std::pow(decay, static_cast<double>(visit.n_tokens));
      for (size_t i = 0; i < visit.experts.size(); ++i) {
        if (visit.experts[i] != expert % 7) continue;
        for (int64_t age = 0; age < visit.n_tokens; ++age)
          heat += visit.calls[i] * std::pow(decay, static_cast<double>(age)) /
                  static_cast<double>(visit.n_tokens);
      }
    }
    // The same number for equal heats, however they came to be.
    const double wait = 1 / std::max((1 - decay) * heat, 1e-9);
    const int64_t visits_until = (expert / 7 - past.back().layer + 2) % 3 + 1;
    return -std::round((wait + static_cast<double>(visits_until) / 3) * 1e6) * 1e-6;
  };
  Rng rng(2);
  for (const int64_t n_slots : {1, 2, 5, 9, 13, 20}) {
    const CacheShape shape{3, 7, n_slots};
    LfuPolicy policy(shape, kHalfLife);
    compare(shape, policy, expected_wait, random_visits(rng, 3, 7, true));
  }
}

}  // namespace
}  // namespace soli
