// Random policies, with every control that may go with every other, against a plain recomputation in double
// precision that is written from docs/steering.md, one line for each of its steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "model/steered_sequence.h"

namespace soli {
namespace {

using Numbers = std::vector<double>;

class PlainSteering {
 public:
  PlainSteering(const RouterSpec& router, const RoutingPolicy& policy, std::vector<float> bias)
      : router_(router), policy_(policy), bias_(std::move(bias)) {}

  SteeredChoice next(const std::vector<float>& logits) {
    Numbers g(logits.begin(), logits.end());
    add_noise_and_context(g);
    for (const ExpertBias& bias : policy_.bias) g[static_cast<size_t>(bias.expert)] += bias.bias;
    for (double& x : g) x /= policy_.temperature;
    for (const int32_t id : policy_.mask) g[static_cast<size_t>(id)] = -1e30;
    Numbers p = scores_of(g);
    if (!scores_.empty()) {
      for (size_t e = 0; e < p.size(); ++e)
        p[e] = (1 - policy_.smoothing) * p[e] + policy_.smoothing * scores_.back()[e];
    }
    if (policy_.smoothing > 0 && router_.gating == Gating::kSoftmaxChosen) {
      for (size_t e = 0; e < p.size(); ++e) g[e] = std::log(std::max(p[e], 1e-37));
    }
    const std::vector<int32_t> ids = with_capacity(within_limits(ranked(g, p), p));
    scores_.push_back(p);
    chosen_.push_back({ids.begin(), ids.end()});
    return weighed(ids, g, p);
  }

 private:
  void add_noise_and_context(Numbers& g) const {
    const auto position = static_cast<int64_t>(scores_.size());
    const int64_t n = std::min(position, policy_.context_gate_tokens);
    for (size_t e = 0; e < g.size(); ++e) {
      g[e] += policy_.noise *
              steering_noise(static_cast<uint64_t>(policy_.noise_seed), position, 0, static_cast<int64_t>(e));
      double sum = 0;
      for (int64_t i = position - n; i < position; ++i) sum += scores_[static_cast<size_t>(i)][e];
      if (n > 0) g[e] += policy_.context_gate * sum / static_cast<double>(n);
    }
  }

  Numbers scores_of(const Numbers& g) const {
    Numbers p = g;
    if (router_.gating == Gating::kSigmoid) {
      for (double& x : p) x = 1 / (1 + std::exp(-x));
      return p;
    }
    return softmax(p);
  }

  static Numbers softmax(Numbers x) {
    const double most = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (double& value : x) sum += value = std::exp(value - most);
    for (double& value : x) value /= sum;
    return x;
  }

  bool is_masked(int32_t id) const {
    return std::find(policy_.mask.begin(), policy_.mask.end(), id) != policy_.mask.end();
  }
  bool is_forced(int32_t id) const {
    return std::find(policy_.force.begin(), policy_.force.end(), id) != policy_.force.end();
  }

  /// Those that may be chosen, the forced ones first, then the best first.
  std::vector<int32_t> ranked(const Numbers& g, const Numbers& p) const {
    Numbers rank = router_.gating == Gating::kSoftmaxChosen ? g : p;
    for (size_t e = 0; e < bias_.size(); ++e) rank[e] += static_cast<double>(bias_[e]);
    const std::set<int64_t> groups = best_groups(rank);
    const int64_t group_size = router_.n_experts / router_.n_groups;
    std::vector<int32_t> order;
    for (int32_t id = 0; id < router_.n_experts; ++id) {
      if (!is_masked(id) && (is_forced(id) || groups.contains(id / group_size))) order.push_back(id);
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (is_forced(a) != is_forced(b)) return is_forced(a);
      return rank[static_cast<size_t>(a)] > rank[static_cast<size_t>(b)];
    });
    return order;
  }

  std::set<int64_t> best_groups(const Numbers& rank) const {
    const int64_t group_size = router_.n_experts / router_.n_groups;
    std::vector<std::pair<double, int64_t>> groups;
    for (int64_t group = 0; group < router_.n_groups; ++group) {
      Numbers of_group;
      for (int64_t e = group * group_size; e < (group + 1) * group_size; ++e) {
        if (!is_masked(static_cast<int32_t>(e))) of_group.push_back(rank[static_cast<size_t>(e)]);
      }
      std::sort(of_group.rbegin(), of_group.rend());
      double score = of_group.empty() ? -1e300 : of_group[0];
      if (of_group.size() > 1) score += of_group[1];
      groups.emplace_back(-score, group);
    }
    std::sort(groups.begin(), groups.end());
    std::set<int64_t> best;
    for (int64_t i = 0; i < router_.n_groups_used; ++i) best.insert(groups[static_cast<size_t>(i)].second);
    return best;
  }

  /// The chosen ones, and after them those that are next.
  std::pair<std::vector<int32_t>, std::vector<int32_t>> within_limits(const std::vector<int32_t>& order,
                                                                      const Numbers& p) const {
    const int64_t k = policy_.experts_per_token > 0 ? policy_.experts_per_token : router_.experts_per_token;
    const auto n = std::min(static_cast<size_t>(k), order.size());
    const auto at_least =
        static_cast<size_t>(std::max(policy_.k_min, static_cast<int64_t>(policy_.force.size())));
    double best = 0;
    for (size_t i = 0; i < n; ++i) best = std::max(best, p[static_cast<size_t>(order[i])]);
    std::vector<int32_t> kept;
    std::vector<int32_t> rest;
    for (size_t i = 0; i < n; ++i) {
      const bool passes = i < at_least || policy_.relative_threshold == 0 ||
                          p[static_cast<size_t>(order[i])] > policy_.relative_threshold * best;
      (passes ? kept : rest).push_back(order[i]);
    }
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    double sum = 0;
    size_t count = 0;
    while (count < kept.size()) {
      sum += p[static_cast<size_t>(kept[count++])];
      if (policy_.cumulative_probability < 1 && count >= at_least &&
          sum >= policy_.cumulative_probability * total)
        break;
    }
    std::vector<int32_t> next(kept.begin() + static_cast<std::ptrdiff_t>(count), kept.end());
    kept.resize(count);
    next.insert(next.end(), rest.begin(), rest.end());
    next.insert(next.end(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end());
    return {kept, next};
  }

  std::vector<int32_t> with_capacity(
      const std::pair<std::vector<int32_t>, std::vector<int32_t>>& choice) const {
    auto [kept, next] = choice;
    if (policy_.capacity_factor == 0) return kept;
    const int64_t k = policy_.experts_per_token > 0 ? policy_.experts_per_token : router_.experts_per_token;
    const double share = static_cast<double>(policy_.capacity_window * k) /
                         static_cast<double>(router_.n_experts) * policy_.capacity_factor;
    const auto capacity = static_cast<int64_t>(std::ceil(share));
    const auto window = static_cast<size_t>(policy_.capacity_window);
    const auto has_room = [&](int32_t id) {
      int64_t calls = 0;
      for (size_t i = chosen_.size() / window * window; i < chosen_.size(); ++i)
        calls += chosen_[i].contains(id) ? 1 : 0;
      return calls < capacity;
    };
    std::vector<int32_t> ids;
    for (const int32_t id : kept) {
      if (is_forced(id) || has_room(id)) {
        ids.push_back(id);
        continue;
      }
      while (!next.empty() && !has_room(next.front())) next.erase(next.begin());
      if (policy_.overflow == Overflow::kDrop || next.empty()) continue;
      ids.push_back(next.front());
      next.erase(next.begin());
    }
    return ids;
  }

  SteeredChoice weighed(const std::vector<int32_t>& ids, const Numbers& g, const Numbers& p) const {
    Numbers weights;
    for (const int32_t id : ids)
      weights.push_back((router_.gating == Gating::kSoftmaxChosen ? g : p)[static_cast<size_t>(id)]);
    if (router_.gating == Gating::kSoftmaxChosen && !ids.empty()) weights = softmax(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    SteeredChoice choice = {ids, {}};
    for (const double weight : weights)
      choice.weights.push_back(static_cast<float>(weight / (router_.renormalise ? sum : 1)));
    return choice;
  }

  const RouterSpec router_;
  const RoutingPolicy policy_;
  const std::vector<float> bias_;
  std::vector<Numbers> scores_;
  std::vector<std::set<int32_t>> chosen_;
};

class RandomPolicy {
 public:
  explicit RandomPolicy(uint64_t seed) : rng_(seed) {}

  RouterSpec router() {
    const Gating gatings[] = {Gating::kSoftmax, Gating::kSoftmaxChosen, Gating::kSigmoid};
    RouterSpec router = {.n_experts = 8,
                         .experts_per_token = 1 + below(3),
                         .gating = gatings[below(3)],
                         .renormalise = below(2) == 0};
    if (below(3) == 0) {
      router.n_groups = 4;
      router.n_groups_used = 2;
    }
    return router;
  }

  RoutingPolicy policy(const RouterSpec& router) {
    RoutingPolicy policy;
    if (below(3) == 0) policy.experts_per_token = 1 + below(3);
    if (below(4) == 0) policy.relative_threshold = unit();
    if (below(4) == 0) policy.k_min = 1 + below(2);
    if (below(4) == 0) policy.cumulative_probability = 0.01 + 0.99 * unit();
    if (below(3) == 0) policy.temperature = 0.2 + 2 * unit();
    if (below(3) == 0) policy.noise = unit();
    policy.noise_seed = below(5);
    if (below(3) == 0) policy.smoothing = 0.9 * unit();
    if (below(3) == 0) policy.context_gate = 4 * unit() - 1;
    policy.context_gate_tokens = 1 + below(4);
    if (below(3) == 0) policy.capacity_factor = 0.1 + 2 * unit();
    policy.capacity_window = 1 + below(6);
    if (below(2) == 0) policy.overflow = Overflow::kDrop;
    if (below(2) == 0) policy.bias = {{static_cast<int32_t>(below(8)), 2 * unit() - 1}};
    if (below(3) == 0) policy.mask = {static_cast<int32_t>(below(4)), 4 + static_cast<int32_t>(below(3))};
    const int64_t k = policy.experts_per_token > 0 ? policy.experts_per_token : router.experts_per_token;
    if (below(3) == 0 && k > 0) policy.force = {7};
    return policy;
  }

  std::vector<float> numbers(size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = static_cast<float>(6 * unit() - 3);
    return values;
  }
  int64_t below(uint64_t bound) { return static_cast<int64_t>(rng_.next_below(bound)); }
  double unit() { return rng_.next_unit(); }

 private:
  Rng rng_;
};

TEST(SteeringOracle, RandomPoliciesChooseAndWeighAsTheFormulasSay) {
  const auto runtime = std::move(*Runtime::create({.n_threads = 2}));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    RandomPolicy random(seed);
    const RouterSpec router = random.router();
    const RoutingPolicy policy = random.policy(router);
    const std::vector<float> bias =
        router.gating == Gating::kSigmoid && random.below(2) == 0 ? random.numbers(8) : std::vector<float>();
    std::vector<std::vector<float>> logits;
    for (int i = 0; i < 12; ++i) logits.push_back(random.numbers(8));
    SteeredSequence sequence(*runtime, router, policy, bias);
    ASSERT_EQ(sequence.error, "") << seed;
    PlainSteering plain(router, policy, bias);
    std::vector<SteeredChoice> choices;
    while (choices.size() < logits.size()) {  // in chunks
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(choices.size());
      const auto left = static_cast<uint64_t>(logits.end() - begin);
      const auto chunk = sequence.route({begin, begin + 1 + random.below(left)});
      choices.insert(choices.end(), chunk.begin(), chunk.end());
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      SteeredChoice expected = plain.next(logits[i]);
      SteeredChoice found = choices[i];
      std::vector<int32_t> expected_ids = expected.ids;
      std::vector<int32_t> found_ids = found.ids;
      std::sort(expected_ids.begin(), expected_ids.end());
      std::sort(found_ids.begin(), found_ids.end());
      ASSERT_EQ(found_ids, expected_ids) << "seed " << seed << ", position " << i;
      for (size_t n = 0; n < found.ids.size(); ++n) {
        const auto place = std::find(expected.ids.begin(), expected.ids.end(), found.ids[n]);
        ASSERT_NEAR(found.weights[n], expected.weights[static_cast<size_t>(place - expected.ids.begin())],
                    2e-5)
            << "seed " << seed << ", position " << i;
      }
    }
  }
}

}  // namespace
}  // namespace soli
