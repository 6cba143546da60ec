#include "experts/recency_policies.h"

#include "base/check.h"

namespace soli {
namespace {

/// Between 0 and 1: of the experts that one visit used, those that few rows chose go first.
double part_of_rows(const LayerVisit& visit, size_t i) {
  return static_cast<double>(visit.calls[i]) / (static_cast<double>(visit.n_tokens) + 1);
}

}  // namespace

LruPolicy::LruPolicy(const CacheShape& shape)
    : shape_(shape), claims_(shape), last_use_(static_cast<size_t>(shape.n_layers * shape.n_experts)) {}

void LruPolicy::on_visit(const LayerVisit& visit) {
  victims_.clear(visit.experts.size());
  n_visits_ += 1;
  const std::vector<char>& claims = claims_.of(visit);
  for (size_t i = 0; i < visit.experts.size(); ++i) {
    double& last_use = last_use_[static_cast<size_t>(visit.layer * shape_.n_experts + visit.experts[i])];
    last_use = (claims[i] ? n_visits_ : -1) + part_of_rows(visit, i);
  }
}

size_t LruPolicy::choose_victim(std::span<const ExpertNumber> residents) {
  return victims_.next(residents,
                       [&](ExpertNumber expert) { return last_use_[static_cast<size_t>(expert)]; });
}

LeastStalePolicy::LeastStalePolicy(const CacheShape& shape)
    : shape_(shape),
      claims_(shape),
      turns_(shape),
      n_turns_(static_cast<size_t>(shape.n_layers)),
      last_turn_(static_cast<size_t>(shape.n_layers * shape.n_experts), -1.0) {}

void LeastStalePolicy::on_visit(const LayerVisit& visit) {
  victims_.clear(visit.experts.size());
  turns_.begin(visit.layer);
  const double turn = n_turns_[static_cast<size_t>(visit.layer)] += 1;
  const std::vector<char>& claims = claims_.of(visit);
  for (size_t i = 0; i < visit.experts.size(); ++i) {
    double& last_turn = last_turn_[static_cast<size_t>(visit.layer * shape_.n_experts + visit.experts[i])];
    last_turn = (claims[i] ? turn : -1) + part_of_rows(visit, i);
  }
}

size_t LeastStalePolicy::choose_victim(std::span<const ExpertNumber> residents) {
  const std::vector<double>& steps_until = turns_.steps_until();
  return victims_.next(residents, [&](ExpertNumber expert) {
    const size_t layer = turns_.layer_of(expert);
    return last_turn_[static_cast<size_t>(expert)] - n_turns_[layer] - steps_until[layer];
  });
}

}  // namespace soli
