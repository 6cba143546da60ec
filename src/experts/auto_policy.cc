#include "experts/auto_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "experts/lfu_policy.h"
#include "experts/recency_policies.h"
#include "experts/shares_policy.h"

namespace soli {
namespace {

constexpr double kMaxLooks = 40'000;
constexpr int64_t kMaxSampledLayers = 12;  // beyond, every visit of a ghost costs and tells little
/// From a short memory of what was called to one longer than any text.
constexpr double kHalfLivesTokens[] = {16, 64, 256, 2048};
constexpr double kFirstHalfLifeTokens = 64;
constexpr size_t kCandidates = 3 + std::size(kHalfLivesTokens);

/// Steps in which what a ghost hit loses half its weight. A longer memory would tell finer differences, but
/// those matter less than a ruler whose time is over.
constexpr double kRateHalfLifeSteps = 64;
constexpr double kMargin = 0.002;  // of the hit rate

std::unique_ptr<CachePolicy> make_candidate(size_t number, const CacheShape& shape) {
  if (number == 0) return std::make_unique<LruPolicy>(shape);
  if (number == 1) return std::make_unique<LeastStalePolicy>(shape);
  if (number == 2) return std::make_unique<SharesPolicy>(shape);
  return std::make_unique<LfuPolicy>(shape, kHalfLivesTokens[number - 3]);
}

std::string name_of(size_t number, const CachePolicy& policy) {
  if (number < 3) return std::string(policy.name());
  return fmt::format("{}-{}", policy.name(), kHalfLivesTokens[number - 3]);
}

int64_t sampled_layers(const CacheShape& shape) {
  const double looks_of_one = static_cast<double>(kCandidates * static_cast<size_t>(shape.n_slots)) /
                              static_cast<double>(shape.n_layers);
  const auto within_looks = static_cast<int64_t>(std::sqrt(kMaxLooks / looks_of_one));
  return std::clamp<int64_t>(within_looks, 1, std::min(kMaxSampledLayers, shape.n_layers));
}

}  // namespace

AutoPolicy::AutoPolicy(const CacheShape& shape)
    : n_sampled_(sampled_layers(shape)),
      sample_of_layer_(static_cast<size_t>(shape.n_layers), -1),
      decay_(std::exp2(-1 / (kRateHalfLifeSteps * static_cast<double>(n_sampled_)))) {
  for (int64_t i = 0; i < n_sampled_; ++i) {
    const int64_t layer = (2 * i + 1) * shape.n_layers / (2 * n_sampled_);
    sample_of_layer_[static_cast<size_t>(layer)] = static_cast<int32_t>(i);
  }
  CacheShape sample = shape;
  sample.n_layers = n_sampled_;
  sample.n_slots = std::max<int64_t>(1, shape.n_slots * n_sampled_ / shape.n_layers);
  for (size_t i = 0; i < kCandidates; ++i) {
    Candidate candidate;
    candidate.policy = make_candidate(i, shape);
    candidate.name = name_of(i, *candidate.policy);
    candidate.ghost_policy = make_candidate(i, sample);
    candidate.ghost = std::make_unique<CacheSimulator>(sample, *candidate.ghost_policy);
    if (i >= 3 && kHalfLivesTokens[i - 3] == kFirstHalfLifeTokens) current_ = i;
    candidates_.push_back(std::move(candidate));
  }
}

void AutoPolicy::on_visit(const LayerVisit& visit) {
  for (Candidate& candidate : candidates_) candidate.policy->on_visit(visit);
  const int32_t sample = sample_of_layer_[static_cast<size_t>(visit.layer)];
  if (sample < 0) return;
  LayerVisit sampled = visit;
  sampled.layer = sample;
  visit_ghosts(sampled);
  if (sample + 1 == n_sampled_) choose_candidate();
}

void AutoPolicy::visit_ghosts(const LayerVisit& visit) {
  requests_ = requests_ * decay_ + static_cast<double>(visit.experts.size());
  for (Candidate& candidate : candidates_)
    candidate.hits = candidate.hits * decay_ + static_cast<double>(candidate.ghost->visit(visit));
}

double AutoPolicy::rate(const Candidate& candidate) const {
  return requests_ > 0 ? candidate.hits / requests_ : 0;
}

void AutoPolicy::choose_candidate() {
  const auto best = std::max_element(candidates_.begin(), candidates_.end(),
                                     [](const Candidate& a, const Candidate& b) { return a.hits < b.hits; });
  if (rate(*best) > rate(candidates_[current_]) + kMargin)
    current_ = static_cast<size_t>(best - candidates_.begin());
}

size_t AutoPolicy::choose_victim(std::span<const ExpertNumber> residents) {
  return candidates_[current_].policy->choose_victim(residents);
}

std::vector<PolicyRate> AutoPolicy::candidates() const {
  std::vector<PolicyRate> out;
  for (const Candidate& candidate : candidates_) out.push_back({candidate.name, rate(candidate)});
  return out;
}

}  // namespace soli
