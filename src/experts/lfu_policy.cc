#include "experts/lfu_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace soli {

LfuPolicy::LfuPolicy(const CacheShape& shape, const Options& options)
    : shape_(shape),
      options_(options),
      name_(fmt::format("lfu-{}{}", options.half_life_tokens, options.turns ? "t" : "")),
      heat_(shape.n_layers, shape.n_experts, options.half_life_tokens) {}

void LfuPolicy::on_visit(const LayerVisit& visit) {
  victims_.clear();
  layer_ = visit.layer;
  heat_.pass(visit.layer, visit.n_tokens);
  const double weight = weight_of_call(visit.n_tokens, options_.half_life_tokens);
  for (size_t i = 0; i < visit.experts.size(); ++i)
    heat_.add(visit.layer, visit.experts[i], visit.calls[i] * weight);
}

size_t LfuPolicy::choose_victim(std::span<const ExpertNumber> residents) {
  if (!options_.turns) {
    return victims_.next(residents, [&](ExpertNumber expert) {
      return heat_.at(expert / shape_.n_experts, expert % shape_.n_experts);
    });
  }
  const double c = -std::expm1(-std::log(2.0) / options_.half_life_tokens);
  return victims_.next(residents, [&](ExpertNumber expert) {
    const int64_t layer = expert / shape_.n_experts;
    const double until = static_cast<double>((layer - layer_ + shape_.n_layers - 1) % shape_.n_layers + 1) /
                         static_cast<double>(shape_.n_layers);
    const double rate = std::max(1e-12, c * heat_.at(layer, expert % shape_.n_experts));
    return -(1 / rate + until);
  });
}

}  // namespace soli
