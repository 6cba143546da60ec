#include "observe/profile_resampling.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/rng.h"
#include "observe/expert_shares.h"

namespace soli {
namespace {

constexpr double kTail = 0.025;

/// A figure of the sample and of its replicates.
struct Replicated {
  double sample = 0;
  std::vector<double> values;  // [replicates]

  void add_share_of(const Replicated& other, double share) {
    sample += other.sample * share;
    values.resize(other.values.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] += other.values[i] * share;
  }
};

struct ReplicatedFigures {
  Replicated variation;
  Replicated never_called;

  void add_share_of(const ReplicatedFigures& other, double share) {
    variation.add_share_of(other.variation, share);
    never_called.add_share_of(other.never_called, share);
  }
};

/// Linear interpolation between order statistics.
double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

Interval basic_interval(double figure, const Replicated& replicated, double largest) {
  const double low = figure + replicated.sample - quantile(replicated.values, 1 - kTail);
  const double high = figure + replicated.sample - quantile(replicated.values, kTail);
  return {std::clamp(low, 0.0, largest), std::clamp(high, 0.0, largest)};
}

/// Calls of each expert in each run of a domain's sample in one layer, [runs][experts].
std::vector<int64_t> calls_of_runs(const DomainCounts& domain, size_t layer, size_t n_experts) {
  const std::span<const SampledRun> runs = domain.sample.runs();
  std::vector<int64_t> calls(runs.size() * n_experts);
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const int32_t id : runs[r].layers[layer].ids) ++calls[r * n_experts + static_cast<size_t>(id)];
  }
  return calls;
}

/// Bootstraps one layer. Which runs are drawn depends on seed, replicate and domain only, so that layers
/// are drawn together.
class LayerBootstrap {
 public:
  LayerBootstrap(const RoutingProfile& profile, size_t layer, uint64_t seed)
      : profile_(profile),
        layer_(layer),
        seed_(seed),
        n_experts_(static_cast<size_t>(profile.shape.n_experts)),
        united_(static_cast<size_t>(kProfileReplicates + 1) * n_experts_) {}

  /// [domains + 1]
  std::vector<ReplicatedFigures> run() {
    std::vector<ReplicatedFigures> figures(profile_.domains.size() + 1);
    for (size_t d = 0; d < profile_.domains.size(); ++d) draw(d, figures[d]);
    for (int64_t replicate = -1; replicate < kProfileReplicates; ++replicate)
      store(united_of(replicate), replicate, figures.back());
    return figures;
  }

 private:
  /// Calls over all domains in a replicate, or in the sample itself (-1).
  std::span<int64_t> united_of(int64_t replicate) {
    return std::span(united_).subspan(static_cast<size_t>(replicate + 1) * n_experts_, n_experts_);
  }

  void draw(size_t d, ReplicatedFigures& figures) {
    const std::vector<int64_t> runs = calls_of_runs(profile_.domains[d], layer_, n_experts_);
    const size_t n_runs = runs.size() / n_experts_;
    std::vector<int64_t> calls(n_experts_);
    for (int64_t replicate = -1; replicate < kProfileReplicates; ++replicate) {
      Rng rng(hash_u64(seed_ ^ hash_u64(static_cast<uint64_t>(replicate) * 1000003 + d)));
      std::fill(calls.begin(), calls.end(), 0);
      for (size_t i = 0; i < n_runs; ++i) {
        const size_t r = replicate < 0 ? i : static_cast<size_t>(rng.next_below(n_runs));
        for (size_t e = 0; e < n_experts_; ++e) calls[e] += runs[r * n_experts_ + e];
      }
      store(calls, replicate, figures);
      const std::span<int64_t> united = united_of(replicate);
      for (size_t e = 0; e < n_experts_; ++e) united[e] += calls[e];
    }
  }

  static void store(std::span<const int64_t> calls, int64_t replicate, ReplicatedFigures& figures) {
    const ExpertShares shares = expert_shares(calls);
    if (replicate < 0) {
      figures.variation.sample = shares.variation;
      figures.never_called.sample = shares.never_called;
    } else {
      figures.variation.values.push_back(shares.variation);
      figures.never_called.values.push_back(shares.never_called);
    }
  }

  const RoutingProfile& profile_;
  const size_t layer_;
  const uint64_t seed_;
  const size_t n_experts_;
  std::vector<int64_t> united_;  // [1 + replicates][experts]
};

/// The calls of all tokens of a target, of one layer.
ExpertShares shares_of(const RoutingProfile& profile, size_t target, size_t layer) {
  std::vector<int64_t> calls(static_cast<size_t>(profile.shape.n_experts));
  for (size_t d = 0; d < profile.domains.size(); ++d) {
    if (target != d && target != profile.domains.size()) continue;
    const std::vector<int64_t>& of_domain = profile.domains[d].layers[layer].calls;
    for (size_t e = 0; e < calls.size(); ++e) calls[e] += of_domain[e];
  }
  return expert_shares(calls);
}

void bootstrap(const RoutingProfile& profile, uint64_t seed, std::vector<ResampledTarget>& targets) {
  const size_t n_layers = profile.shape.layers.size();
  std::vector<ReplicatedFigures> totals(targets.size());
  std::vector<double> variation(targets.size()), never_called(targets.size());
  std::vector<size_t> n_runs(targets.size());
  for (size_t d = 0; d < profile.domains.size(); ++d) {
    n_runs[d] = profile.domains[d].sample.runs().size();
    n_runs.back() += n_runs[d];
  }
  const auto fill = [](const ReplicatedFigures& replicated, double cv, double never, ResampledFigures& to) {
    to.variation = basic_interval(cv, replicated.variation, 1e9);
    to.never_called = basic_interval(never, replicated.never_called, 1);
  };
  const double share = 1 / static_cast<double>(n_layers);
  for (size_t layer = 0; layer < n_layers; ++layer) {
    const std::vector<ReplicatedFigures> figures = LayerBootstrap(profile, layer, seed).run();
    for (size_t t = 0; t < targets.size(); ++t) {
      const ExpertShares shares = shares_of(profile, t, layer);
      variation[t] += shares.variation * share;
      never_called[t] += shares.never_called * share;
      totals[t].add_share_of(figures[t], share);
      if (n_runs[t] >= 2) fill(figures[t], shares.variation, shares.never_called, targets[t].layers[layer]);
    }
  }
  for (size_t t = 0; t < targets.size(); ++t) {
    if (n_runs[t] >= 2) fill(totals[t], variation[t], never_called[t], targets[t].total);
  }
}

/// The sampled tokens as one list of places, and what was chosen at each.
class Tokens {
 public:
  explicit Tokens(const RoutingProfile& profile)
      : n_experts_(static_cast<size_t>(profile.shape.n_experts)), layers_(profile.shape.layers.size()) {
    for (size_t d = 0; d < profile.domains.size(); ++d) {
      for (const SampledRun& run : profile.domains[d].sample.runs()) add(run, d);
    }
    for (Layer& layer : layers_) layer.begin.push_back(layer.ids.size());
  }

  size_t size() const { return domain_.size(); }
  size_t n_layers() const { return layers_.size(); }
  size_t n_experts() const { return n_experts_; }
  size_t domain_of(size_t place) const { return domain_[place]; }
  /// Whether the token before this place is the one before it in its text.
  bool continues(size_t place) const { return continues_[place] != 0; }
  std::span<const int32_t> ids_of(size_t layer, size_t place) const {
    const Layer& l = layers_[layer];
    return std::span(l.ids).subspan(l.begin[place], l.begin[place + 1] - l.begin[place]);
  }

 private:
  struct Layer {
    std::vector<size_t> begin;  // [tokens + 1]
    std::vector<int32_t> ids;
  };

  void add(const SampledRun& run, size_t domain) {
    for (int64_t i = 0; i < run.n_tokens(); ++i) {
      domain_.push_back(domain);
      continues_.push_back(i > 0 ? 1 : 0);
    }
    for (size_t l = 0; l < layers_.size(); ++l) {
      size_t begin = layers_[l].ids.size();
      for (const int32_t k : run.layers[l].k) {
        layers_[l].begin.push_back(begin);
        begin += static_cast<size_t>(k);
      }
      layers_[l].ids.insert(layers_[l].ids.end(), run.layers[l].ids.begin(), run.layers[l].ids.end());
    }
  }

  const size_t n_experts_;
  std::vector<size_t> domain_;
  std::vector<uint8_t> continues_;
  std::vector<Layer> layers_;
};

/// Information and overlap, [targets][layers + 1]; the last is the mean over layers.
struct Statistics {
  std::vector<std::vector<double>> information;
  std::vector<std::vector<double>> overlap;
};

/// What the tokens give in some order, and what permutations of it do.
class Permutations {
 public:
  Permutations(const RoutingProfile& profile, uint64_t seed)
      : tokens_(profile), n_domains_(profile.domains.size()), rng_(hash_u64(seed ^ 0x7065726d)) {}

  void run(std::vector<ResampledTarget>& targets) {
    std::vector<size_t> order(tokens_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const Statistics observed = statistics(order);
    std::vector<Statistics> permuted;
    for (int64_t replicate = 0; replicate < kProfileReplicates; ++replicate) {
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.next_below(i)]);
      permuted.push_back(statistics(order));
    }
    const bool has_parts = n_domains_with_tokens() > 1;
    for (size_t t = 0; t < targets.size(); ++t) {
      const bool has_information = has_parts && count(t, false) > 0;
      const bool has_pairs = count(t, true) > 0;
      for (size_t l = 0; l <= tokens_.n_layers(); ++l) {
        ResampledFigures& to = l == tokens_.n_layers() ? targets[t].total : targets[t].layers[l];
        if (has_information)
          to.information = test(observed.information[t][l], permuted, &Statistics::information, t, l, false);
        if (has_pairs)
          to.stability = test(observed.overlap[t][l], permuted, &Statistics::overlap, t, l, true);
      }
    }
  }

 private:
  size_t n_domains_with_tokens() const {
    size_t n = 0;
    for (size_t d = 0; d < n_domains_; ++d) n += count(d, false) > 0 ? 1 : 0;
    return n;
  }
  /// Sampled tokens of a target, or those of them that have one before them.
  size_t count(size_t target, bool pairs) const {
    size_t n = 0;
    for (size_t place = 0; place < tokens_.size(); ++place) {
      const bool belongs = target == n_domains_ || tokens_.domain_of(place) == target;
      n += belongs && (!pairs || tokens_.continues(place)) ? 1 : 0;
    }
    return n;
  }

  Statistics statistics(std::span<const size_t> order) const {
    Statistics all;
    const std::vector<double> zeros(tokens_.n_layers() + 1);
    all.information.assign(n_domains_ + 1, zeros);
    all.overlap.assign(n_domains_ + 1, zeros);
    for (size_t layer = 0; layer < tokens_.n_layers(); ++layer) add_layer(order, layer, all);
    for (std::vector<std::vector<double>>* figures : {&all.information, &all.overlap}) {
      for (std::vector<double>& target : *figures)
        target.back() =
            std::accumulate(target.begin(), target.end() - 1, 0.0) / static_cast<double>(tokens_.n_layers());
    }
    return all;
  }

  void add_layer(std::span<const size_t> order, size_t layer, Statistics& all) const {
    const size_t n_experts = tokens_.n_experts();
    std::vector<int64_t> calls((n_domains_ + 1) * n_experts);
    std::vector<int64_t> n_calls(n_domains_ + 1), n_pairs(n_domains_ + 1);
    for (size_t place = 0; place < order.size(); ++place) {
      const size_t domain = tokens_.domain_of(place);
      const std::span<const int32_t> ids = tokens_.ids_of(layer, order[place]);
      for (const int32_t id : ids) {
        ++calls[domain * n_experts + static_cast<size_t>(id)];
        ++calls[n_domains_ * n_experts + static_cast<size_t>(id)];
      }
      n_calls[domain] += static_cast<int64_t>(ids.size());
      n_calls.back() += static_cast<int64_t>(ids.size());
      if (!tokens_.continues(place)) continue;
      const double overlap = jaccard(tokens_.ids_of(layer, order[place - 1]), ids);
      for (const size_t target : {domain, n_domains_}) {
        all.overlap[target][layer] += overlap;
        ++n_pairs[target];
      }
    }
    const std::span<const int64_t> whole = std::span(calls).last(n_experts);
    for (size_t d = 0; d < n_domains_; ++d) {
      if (n_calls[d] == 0) continue;
      const double bits =
          specific_information_bits(std::span(calls).subspan(d * n_experts, n_experts), whole);
      all.information[d][layer] = bits;
      all.information[n_domains_][layer] +=
          bits * static_cast<double>(n_calls[d]) / static_cast<double>(n_calls.back());
    }
    for (size_t t = 0; t <= n_domains_; ++t) {
      if (n_pairs[t] > 0) all.overlap[t][layer] /= static_cast<double>(n_pairs[t]);
    }
  }

  static PermutationTest test(double observed, const std::vector<Statistics>& permuted,
                              std::vector<std::vector<double>> Statistics::*figure, size_t target,
                              size_t layer, bool two_sided) {
    constexpr double kRounding = 1e-12;  // sums in another order
    PermutationTest result = {.observed = observed};
    int64_t above = 1;
    int64_t below = 1;
    for (const Statistics& statistics : permuted) {
      const double value = (statistics.*figure)[target][layer];
      result.permuted += value / static_cast<double>(permuted.size());
      above += value >= observed - kRounding ? 1 : 0;
      below += value <= observed + kRounding ? 1 : 0;
    }
    const auto n = static_cast<double>(permuted.size() + 1);
    result.p = static_cast<double>(above) / n;
    if (two_sided) result.p = std::min(1.0, 2 * static_cast<double>(std::min(above, below)) / n);
    return result;
  }

  const Tokens tokens_;
  const size_t n_domains_;
  Rng rng_;
};

}  // namespace

std::vector<ResampledTarget> resample(const RoutingProfile& profile, uint64_t seed) {
  std::vector<ResampledTarget> targets(profile.domains.size() + 1);
  for (ResampledTarget& target : targets) target.layers.resize(profile.shape.layers.size());
  if (profile.shape.layers.empty()) return targets;
  bootstrap(profile, seed, targets);
  Permutations(profile, seed).run(targets);
  return targets;
}

}  // namespace soli
