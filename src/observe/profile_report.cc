#include "observe/profile_report.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "observe/expert_shares.h"

namespace soli {
namespace {

/// A sum over the MoE layers, or a mean.
double over_layers(const std::vector<RoutingFigures>& layers, double RoutingFigures::*member) {
  double sum = 0;
  for (const RoutingFigures& layer : layers) sum += layer.*member;
  return sum / static_cast<double>(layers.size());
}

std::optional<double> over_layers(const std::vector<RoutingFigures>& layers,
                                  std::optional<double> RoutingFigures::*member) {
  double sum = 0;
  for (const RoutingFigures& layer : layers) {
    if (!(layer.*member)) return std::nullopt;
    sum += *(layer.*member);
  }
  return sum / static_cast<double>(layers.size());
}

void add_shares(std::span<const int64_t> calls, RoutingFigures& figures) {
  const ExpertShares shares = expert_shares(calls);
  figures.n_calls = shares.n_calls;
  figures.hottest_layer = figures.coldest_layer = figures.layer;
  figures.hottest_expert = shares.hottest_expert;
  figures.hottest_share = shares.hottest_share;
  figures.coldest_expert = shares.coldest_expert;
  figures.coldest_share = shares.coldest_share;
  figures.routing_entropy_bits = shares.entropy_bits;
  figures.routing_entropy_normalised = shares.entropy_normalised;
  figures.variation = shares.variation;
  figures.max_over_mean = shares.max_over_mean;
  figures.never_called = shares.never_called;
  figures.distinct_experts = shares.distinct;
  figures.calls.assign(calls.begin(), calls.end());
  for (size_t e = 0; e < calls.size() && shares.n_calls > 0; ++e) {
    if (calls[e] == 0) figures.never_experts.push_back(static_cast<int64_t>(e));
  }
}

void add_batches(const LayerCounts& counts, RoutingFigures& figures) {
  for (size_t b = 0; b < kProfileBatches.size(); ++b) {
    BatchFigures batch = {.batch_tokens = kProfileBatches[b], .n_batches = counts.batches[b].n_batches};
    if (batch.n_batches == 0) break;
    batch.distinct_experts =
        static_cast<double>(counts.batches[b].distinct) / static_cast<double>(batch.n_batches);
    batch.expected_union =
        expected_union(counts.calls, counts.n_tokens(), static_cast<double>(batch.batch_tokens));
    batch.sharing_gain = batch.distinct_experts > 0 ? batch.expected_union / batch.distinct_experts : 0;
    figures.batches.push_back(batch);
  }
}

void add_positions(const LayerCounts& counts, RoutingFigures& figures) {
  for (size_t b = 0; b < kProfilePositionBins; ++b) {
    const PositionSums& sums = counts.positions[b];
    if (sums.n_tokens == 0) continue;
    const auto n = static_cast<double>(sums.n_tokens);
    figures.positions.push_back({.first_position = b == 0 ? 0 : int64_t{1} << (b - 1),
                                 .n_tokens = sums.n_tokens,
                                 .mean_k = static_cast<double>(sums.n_calls) / n,
                                 .effective_experts = sums.effective_experts / n,
                                 .gate_entropy_bits = sums.gate_entropy_bits / n});
  }
}

void add_pairs(const LayerCounts& counts, RoutingFigures& figures) {
  const auto n = static_cast<double>(counts.n_tokens());
  for (int64_t b = 1; b < counts.n_experts() && !counts.pairs.empty(); ++b) {
    for (int64_t a = 0; a < b; ++a) {
      const double expected = static_cast<double>(counts.calls[static_cast<size_t>(a)]) *
                              static_cast<double>(counts.calls[static_cast<size_t>(b)]) / n;
      if (!(expected >= RoutingFigures::kLeastExpected)) continue;
      const int64_t n_tokens = counts.pairs[LayerCounts::pair_place(a, b)];
      figures.pairs.push_back({a, b, n_tokens, static_cast<double>(n_tokens) / expected});
    }
  }
  std::stable_sort(figures.pairs.begin(), figures.pairs.end(),
                   [](const ExpertPair& x, const ExpertPair& y) { return x.lift > y.lift; });
  figures.clusters = expert_clusters(figures.pairs, counts.n_experts());
  if (figures.pairs.size() > RoutingFigures::kPairs) figures.pairs.resize(RoutingFigures::kPairs);
}

RoutingFigures layer_figures(const LayerCounts& counts, int64_t layer, const ResampledFigures& resampled) {
  RoutingFigures figures;
  figures.layer = layer;
  figures.n_tokens = counts.n_tokens();
  figures.mean_k = counts.chosen.mean();
  figures.k_deviation = counts.chosen.deviation();
  figures.effective_experts = counts.effective_experts.mean();
  figures.effective_deviation = counts.effective_experts.deviation();
  figures.gate_entropy_bits = counts.gate_entropy_bits.mean();
  figures.gate_entropy_deviation = counts.gate_entropy_bits.deviation();
  if (counts.overlap.n > 0) {
    figures.stability = counts.overlap.mean();
    figures.top1_change_rate =
        static_cast<double>(counts.top1_changes) / static_cast<double>(counts.overlap.n);
  }
  if (counts.margin.n > 0) figures.margin = counts.margin.mean();
  add_shares(counts.calls, figures);
  add_batches(counts, figures);
  add_positions(counts, figures);
  add_pairs(counts, figures);
  figures.resampled = resampled;
  return figures;
}

bool lies_outside(double limit, const std::optional<Interval>& interval) {
  return interval && (limit < interval->low || limit > interval->high);
}

void add_verdict(RoutingFigures& figures) {
  const ResampledFigures& resampled = figures.resampled;
  figures.verdict =
      verdict_of(figures.variation, figures.never_called, resampled.information, resampled.stability);
  figures.is_certain = lies_outside(kBiasedVariation, resampled.variation) &&
                       lies_outside(kBiasedNeverCalled, resampled.never_called);
}

void add_batches_over_layers(const std::vector<RoutingFigures>& layers, RoutingFigures& total) {
  total.batches = layers.front().batches;
  for (size_t l = 1; l < layers.size(); ++l) {
    for (size_t b = 0; b < total.batches.size(); ++b) {
      total.batches[b].distinct_experts += layers[l].batches[b].distinct_experts;
      total.batches[b].expected_union += layers[l].batches[b].expected_union;
    }
  }
  for (BatchFigures& batch : total.batches)
    batch.sharing_gain = batch.distinct_experts > 0 ? batch.expected_union / batch.distinct_experts : 0;
}

void add_positions_over_layers(const std::vector<RoutingFigures>& layers, RoutingFigures& total) {
  total.positions = layers.front().positions;
  for (size_t b = 0; b < total.positions.size(); ++b) {
    PositionFigures& position = total.positions[b];
    position.mean_k = position.effective_experts = position.gate_entropy_bits = 0;
    for (const RoutingFigures& layer : layers) {
      const auto n = static_cast<double>(layers.size());
      position.mean_k += layer.positions[b].mean_k / n;
      position.effective_experts += layer.positions[b].effective_experts / n;
      position.gate_entropy_bits += layer.positions[b].gate_entropy_bits / n;
    }
  }
}

void add_extremes(const std::vector<RoutingFigures>& layers, RoutingFigures& total) {
  const auto less = [](double RoutingFigures::*member) {
    return [member](const RoutingFigures& a, const RoutingFigures& b) { return a.*member < b.*member; };
  };
  const auto hottest = std::max_element(layers.begin(), layers.end(), less(&RoutingFigures::hottest_share));
  const auto coldest = std::min_element(layers.begin(), layers.end(), less(&RoutingFigures::coldest_share));
  total.hottest_layer = hottest->layer;
  total.hottest_expert = hottest->hottest_expert;
  total.hottest_share = hottest->hottest_share;
  total.coldest_layer = coldest->layer;
  total.coldest_expert = coldest->coldest_expert;
  total.coldest_share = coldest->coldest_share;
}

RoutingFigures total_of(const std::vector<RoutingFigures>& layers, const ResampledFigures& resampled) {
  using Figures = RoutingFigures;
  Figures total;
  if (layers.empty()) return total;
  for (double Figures::*member :
       {&Figures::mean_k, &Figures::k_deviation, &Figures::effective_experts, &Figures::effective_deviation,
        &Figures::gate_entropy_bits, &Figures::gate_entropy_deviation, &Figures::routing_entropy_bits,
        &Figures::routing_entropy_normalised, &Figures::variation, &Figures::max_over_mean,
        &Figures::never_called}) {
    total.*member = over_layers(layers, member);
  }
  for (std::optional<double> Figures::*member :
       {&Figures::stability, &Figures::top1_change_rate, &Figures::margin, &Figures::information_bits,
        &Figures::drift_bits, &Figures::drift_chance_bits}) {
    total.*member = over_layers(layers, member);
  }
  total.n_tokens = layers.front().n_tokens;
  for (const Figures& layer : layers) {
    total.n_calls += layer.n_calls;
    total.distinct_experts += layer.distinct_experts;
  }
  add_extremes(layers, total);
  add_batches_over_layers(layers, total);
  add_positions_over_layers(layers, total);
  total.resampled = resampled;
  add_verdict(total);
  return total;
}

/// Turns counts into a report; the last target is all domains.
class Reporter {
 public:
  Reporter(const RoutingProfile& profile, const RoutingProfile* saved, uint64_t seed)
      : profile_(profile), saved_(saved), resampled_(resample(profile, seed)), all_("", profile.shape) {
    for (const DomainCounts& domain : profile.domains) all_.merge(domain);
    for (const DomainCounts& domain : profile.domains) n_domains_ += domain.n_tokens() > 0 ? 1 : 0;
  }

  TargetReport domain(size_t d) const { return target(profile_.domains[d], d); }
  TargetReport all() const {
    TargetReport report = target(all_, profile_.domains.size());
    report.n_sampled_tokens = 0;
    for (const DomainCounts& domain : profile_.domains) report.n_sampled_tokens += n_sampled(domain);
    return report;
  }

 private:
  static int64_t n_sampled(const DomainCounts& domain) {
    int64_t n = 0;
    for (const SampledRun& run : domain.sample.runs()) n += run.n_tokens();
    return n;
  }

  TargetReport target(const DomainCounts& counts, size_t t) const {
    const bool is_all = t == profile_.domains.size();
    TargetReport report = {.name = is_all ? "all" : counts.name, .n_windows = counts.n_windows};
    report.n_sampled_tokens = n_sampled(counts);
    for (size_t l = 0; l < counts.layers.size(); ++l) {
      RoutingFigures figures =
          layer_figures(counts.layers[l], profile_.shape.layers[l], resampled_[t].layers[l]);
      if (n_domains_ > 1 && counts.n_tokens() > 0) figures.information_bits = information(t, l);
      if (is_all) add_specialists(l, figures);
      add_drift(counts.name, is_all, l, figures);
      add_verdict(figures);
      report.layers.push_back(std::move(figures));
    }
    report.total = total_of(report.layers, resampled_[t].total);
    return report;
  }

  double information(size_t t, size_t l) const {
    const std::vector<int64_t>& whole = all_.layers[l].calls;
    if (t < profile_.domains.size())
      return specific_information_bits(profile_.domains[t].layers[l].calls, whole);
    double bits = 0;
    for (const DomainCounts& domain : profile_.domains) {
      if (domain.n_tokens() == 0) continue;
      bits += specific_information_bits(domain.layers[l].calls, whole) * domain.layers[l].chosen.sum /
              all_.layers[l].chosen.sum;
    }
    return bits;
  }

  void add_specialists(size_t l, RoutingFigures& figures) const {
    const LayerCounts& whole = all_.layers[l];
    for (size_t e = 0; e < whole.calls.size(); ++e) {
      for (const DomainCounts& domain : profile_.domains) {
        const LayerCounts& part = domain.layers[l];
        if (part.calls[e] == 0) continue;
        Specialist specialist = {.expert = static_cast<int64_t>(e), .domain = domain.name};
        specialist.lift = static_cast<double>(part.calls[e]) / part.chosen.sum /
                          (static_cast<double>(whole.calls[e]) / whole.chosen.sum);
        specialist.excess_deviations =
            excess_in_deviations(part.calls[e], part.n_tokens(), whole.calls[e], whole.n_tokens());
        if (specialist.lift >= kSpecialistLift && specialist.excess_deviations >= kSpecialistDeviations)
          figures.specialists.push_back(std::move(specialist));
      }
    }
  }

  /// Of one domain from the one of that name, or of all from all.
  void add_drift(const std::string& name, bool is_all, size_t l, RoutingFigures& figures) const {
    if (saved_ == nullptr) return;
    std::vector<int64_t> before(figures.calls.size());
    bool is_there = false;
    for (const DomainCounts& domain : saved_->domains) {
      if (!is_all && domain.name != name) continue;
      is_there = is_there || domain.n_tokens() > 0;
      for (size_t e = 0; e < before.size(); ++e) before[e] += domain.layers[l].calls[e];
    }
    if (!is_there || figures.n_calls == 0) return;
    int64_t n_before = 0;
    for (const int64_t n : before) n_before += n;
    figures.drift_bits = jensen_shannon_bits(figures.calls, before);
    figures.drift_chance_bits = jensen_shannon_of_chance(profile_.shape.n_experts, figures.n_calls, n_before);
  }

  const RoutingProfile& profile_;
  const RoutingProfile* const saved_;
  const std::vector<ResampledTarget> resampled_;
  DomainCounts all_;
  int64_t n_domains_ = 0;  // with tokens
};

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBalanced:
      return "balanced";
    case Verdict::kBiased:
      return "biased";
    case Verdict::kRandom:
      return "random";
  }
  return "";
}

Verdict verdict_of(double variation, double never_called, const std::optional<PermutationTest>& information,
                   const std::optional<PermutationTest>& stability) {
  if (variation > kBiasedVariation || never_called > kBiasedNeverCalled) return Verdict::kBiased;
  const auto fits = [](const std::optional<PermutationTest>& test) {
    return !test || test->p > kSignificantP;
  };
  const bool is_tested = information || stability;
  return is_tested && fits(information) && fits(stability) ? Verdict::kRandom : Verdict::kBalanced;
}

Status check_comparable(const ProfileShape& saved, const ProfileShape& shape) {
  if (saved.n_experts == shape.n_experts && saved.layers == shape.layers) return {};
  return fail(
      ErrorKind::kInvalidArgument,
      "the profile is of {} experts in {} layers; {} experts in {} layers of the same numbers are allowed",
      saved.n_experts, saved.layers.size(), shape.n_experts, shape.layers.size());
}

ProfileReport make_profile_report(const RoutingProfile& profile, const RoutingProfile* saved, uint64_t seed) {
  const ProfileShape& shape = profile.shape;
  if (saved != nullptr) SOLI_CHECK(check_comparable(saved->shape, shape).has_value());
  ProfileReport report = {.model = profile.model,
                          .n_experts = shape.n_experts,
                          .experts_per_token = profile.experts_per_token,
                          .window = profile.window,
                          .seed = seed,
                          .domains = {},
                          .all = {},
                          .against = saved == nullptr ? "" : saved->model};
  const Reporter reporter(profile, saved, seed);
  for (size_t d = 0; d < profile.domains.size(); ++d) report.domains.push_back(reporter.domain(d));
  report.all = reporter.all();
  return report;
}

}  // namespace soli
