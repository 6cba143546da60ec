#include "cli/dissection.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <map>
#include <numeric>
#include <set>

namespace soli::cli {
namespace {

constexpr double kConfidence = 0.95;

/// What holds in a layer: its last part that says something, or what is said for all.
template <typename Part, typename Value>
Value in_layer(const RoutingPolicy& policy, int64_t layer, Part part, Value all) {
  for (const LayerPolicy& some : policy.layers) {
    if (some.first_layer <= layer && layer <= some.last_layer && some.*part) all = *(some.*part);
  }
  return all;
}

void steer_layer(int64_t layer, const DissectTarget& target, DissectMode mode, const ModelSpec& spec,
                 RoutingPolicy& policy) {
  LayerPolicy part = {.first_layer = layer, .last_layer = layer};
  if (mode == DissectMode::kOnly) {
    std::vector<int32_t> others(static_cast<size_t>(spec.router.n_experts));
    std::iota(others.begin(), others.end(), 0);
    others.erase(others.begin() + target.expert);
    part.mask = std::move(others);
    part.force = std::vector<int32_t>();
    part.experts_per_token = 1;
  } else {
    std::vector<int32_t> mask = in_layer(policy, layer, &LayerPolicy::mask, policy.mask);
    std::set<int32_t> masked(mask.begin(), mask.end());
    masked.insert(target.expert);
    part.mask = std::vector<int32_t>(masked.begin(), masked.end());
    std::vector<int32_t> force = in_layer(policy, layer, &LayerPolicy::force, policy.force);
    std::erase(force, target.expert);
    part.force = std::move(force);
  }
  policy.layers.push_back(std::move(part));
}

}  // namespace

std::vector<DissectTarget> dissect_targets(const ModelSpec& spec, bool over_all_layers) {
  std::vector<DissectTarget> targets;
  const auto n_experts = static_cast<int32_t>(spec.router.n_experts);
  if (over_all_layers) {
    for (int32_t e = 0; e < n_experts; ++e) targets.push_back({.layer = {}, .expert = e});
    return targets;
  }
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    for (int32_t e = 0; e < n_experts; ++e) targets.push_back({.layer = layer, .expert = e});
  }
  return targets;
}

RoutingPolicy dissecting_policy(const RoutingPolicy& base, const ModelSpec& spec, const DissectTarget& target,
                                DissectMode mode) {
  RoutingPolicy policy = base;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer) && target.layer.value_or(layer) == layer)
      steer_layer(layer, target, mode, spec, policy);
  }
  return policy;
}

LossChange loss_change(const std::vector<WindowLoss>& before, const std::vector<WindowLoss>& after) {
  std::map<size_t, double> nats;
  for (const WindowLoss& loss : before) nats[loss.window] = loss.nats;
  std::vector<WindowLoss> differences;
  for (const WindowLoss& loss : after) {
    const auto found = nats.find(loss.window);
    if (found == nats.end()) continue;
    differences.push_back(
        {.nats = loss.nats - found->second, .n_tokens = loss.n_tokens, .window = loss.window});
  }
  const Perplexity mean = combine(differences);
  return {.n_tokens = mean.n_tokens,
          .n_windows = mean.n_windows,
          .nats_per_token = mean.nats_per_token,
          .error = mean.nats_error};
}

std::optional<LossInterval> interval_of(const LossChange& change, int64_t n_comparisons) {
  if (!change.error) return {};
  const boost::math::students_t distribution(static_cast<double>(change.n_windows - 1));
  const double tail = (1 - kConfidence) / 2 / static_cast<double>(std::max<int64_t>(1, n_comparisons));
  const double reach = boost::math::quantile(boost::math::complement(distribution, tail)) * *change.error;
  return LossInterval{change.nats_per_token - reach, change.nats_per_token + reach};
}

std::vector<size_t> Dissection::by_change(size_t domain) const {
  std::vector<size_t> order;
  for (size_t i = 0; i < experts.size(); ++i) {
    if (domain < experts[i].domains.size()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return experts[a].domains[domain].change.nats_per_token <
           experts[b].domains[domain].change.nats_per_token;
  });
  return order;
}

std::vector<size_t> Dissection::needed_by(size_t domain) const {
  std::vector<size_t> order = by_change(domain);
  std::reverse(order.begin(), order.end());
  std::erase_if(order, [&](size_t i) {
    const auto interval = interval_of(experts[i].domains[domain].change, n_cells());
    return !interval || interval->low <= 0;
  });
  return order;
}

std::vector<size_t> Dissection::missed_by_nobody() const {
  std::vector<size_t> found;
  if (!complete) return found;
  for (size_t i = 0; i < experts.size(); ++i) {
    const bool is_missed = std::ranges::any_of(experts[i].domains, [&](const DissectCell& cell) {
      const auto interval = interval_of(cell.change, n_cells());
      return !interval || interval->high > tolerance;
    });
    if (!is_missed) found.push_back(i);
  }
  return found;
}

}  // namespace soli::cli
