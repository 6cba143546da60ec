#include "experts/lfu_policy.h"

#include <algorithm>
#include <cmath>

namespace soli {
namespace {

constexpr double kMinRate =
    1e-9;  // per token, of what was never called: small, and its turn still counts beside it

}  // namespace

LfuPolicy::LfuPolicy(const CacheShape& shape, double half_life_tokens)
    : shape_(shape),
      heat_(shape.n_layers, shape.n_experts, half_life_tokens),
      calls_per_heat_(-std::expm1(-std::log(2.0) / half_life_tokens)),
      turns_(shape) {}

void LfuPolicy::on_visit(const LayerVisit& visit) {
  victims_.clear(visit.experts.size());
  turns_.begin(visit.layer);
  heat_.pass(visit.layer, visit.n_tokens);
  const double weight = weight_of_call(visit.n_tokens, half_life_tokens());
  for (size_t i = 0; i < visit.experts.size(); ++i)
    heat_.add(visit.layer, visit.experts[i], visit.calls[i] * weight);
}

size_t LfuPolicy::choose_victim(std::span<const ExpertNumber> residents) {
  const std::vector<double>& steps_until = turns_.steps_until();
  return victims_.next(residents, [&](ExpertNumber expert) {
    const size_t layer = turns_.layer_of(expert);
    const double rate = calls_per_heat_ * heat_.at_number(layer, expert);
    return -(1 / std::max(rate, kMinRate) + steps_until[layer]);
  });
}

}  // namespace soli
