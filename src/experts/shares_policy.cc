#include "experts/shares_policy.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace soli {
namespace {

constexpr float kDecayPerTurn = 0.997f;  // a half-life of 231 turns
/// A slot moves for a gain of so much more than the loss, and than what one call more or less could turn.
constexpr double kGainPerLoss = 1.2;
constexpr double kMinGain = 1;

}  // namespace

SharesPolicy::SharesPolicy(const CacheShape& shape)
    : shape_(shape),
      turns_(shape),
      window_(std::max<int64_t>(1, shape.n_experts / 16)),
      last_use_(static_cast<size_t>(shape.n_layers * shape.n_experts)),
      calls_at_(last_use_.size()),
      evictable_(static_cast<size_t>(shape.n_layers)),
      above_(evictable_.size()) {
  const int64_t n_slots = std::min(shape.n_slots, shape.n_layers * shape.n_experts);
  for (int64_t l = 0; l < shape.n_layers; ++l)
    shares_.push_back((l + 1) * n_slots / shape.n_layers - l * n_slots / shape.n_layers);
}

void SharesPolicy::on_visit(const LayerVisit& visit) {
  counted_ = false;
  layer_ = static_cast<size_t>(visit.layer);
  n_experts_used_ = static_cast<int64_t>(visit.experts.size());
  n_visits_ += 1;
  count_places(visit);
  for (size_t i = 0; i < visit.experts.size(); ++i) {
    // Of the experts of one visit, those that few rows chose go first.
    last_use_[static_cast<size_t>(visit.layer * shape_.n_experts + visit.experts[i])] =
        n_visits_ + static_cast<double>(visit.calls[i]) / (static_cast<double>(visit.n_tokens) + 1);
  }
  if (visit.layer == shape_.n_layers - 1) move_a_slot();
}

void SharesPolicy::count_places(const LayerVisit& visit) {
  float* const calls_at = calls_at_.data() + visit.layer * shape_.n_experts;
  const double* const last_use = last_use_.data() + visit.layer * shape_.n_experts;
  for (int64_t place = 0; place < shape_.n_experts; ++place) calls_at[place] *= kDecayPerTurn;
  for (const int32_t expert : visit.experts) {
    if (last_use[expert] == 0) continue;
    int64_t place = 0;
    for (int64_t e = 0; e < shape_.n_experts; ++e) place += last_use[e] > last_use[expert] ? 1 : 0;
    calls_at[place] += 1;
  }
}

/// Mean over places of a layer's order.
double SharesPolicy::calls_between(size_t layer, int64_t begin, int64_t end) const {
  begin = std::max<int64_t>(begin, 0);
  end = std::min(end, shape_.n_experts);
  if (begin >= end) return 0;
  const float* const calls_at = calls_at_.data() + static_cast<int64_t>(layer) * shape_.n_experts;
  return std::accumulate(calls_at + begin, calls_at + end, 0.0) / static_cast<double>(end - begin);
}

void SharesPolicy::move_a_slot() {
  size_t to = 0, from = 0;
  double most = -1, fewest = -1;
  for (size_t l = 0; l < shares_.size(); ++l) {
    const double gain = calls_between(l, shares_[l], shares_[l] + window_);
    const double loss = calls_between(l, shares_[l] - window_, shares_[l]);
    if (shares_[l] < shape_.n_experts && gain > most) {
      most = gain;
      to = l;
    }
    if (shares_[l] > 1 && (fewest < 0 || loss < fewest)) {
      fewest = loss;
      from = l;
    }
  }
  if (fewest < 0 || most < kGainPerLoss * fewest + kMinGain) return;
  ++shares_[to];
  --shares_[from];
}

void SharesPolicy::count_residents(std::span<const ExpertNumber> residents) {
  counted_ = true;
  victims_layer_ = -1;
  std::fill(evictable_.begin(), evictable_.end(), 0);
  for (const ExpertNumber expert : residents) {
    if (expert >= 0) ++evictable_[turns_.layer_of(expert)];
  }
  for (size_t l = 0; l < shares_.size(); ++l) above_[l] = evictable_[l] - shares_[l];
  above_[layer_] += n_experts_used_;
}

int64_t SharesPolicy::layer_most_above() const {
  int64_t most = -1;
  for (int64_t l = 0; l < shape_.n_layers; ++l) {
    const auto i = static_cast<size_t>(l);
    if (evictable_[i] > 0 && (most < 0 || above_[i] > above_[static_cast<size_t>(most)])) most = l;
  }
  return most;
}

size_t SharesPolicy::choose_victim(std::span<const ExpertNumber> residents) {
  if (!counted_ || layer_most_above() < 0) count_residents(residents);
  for (int64_t layer; (layer = layer_most_above()) >= 0;) {
    if (layer != victims_layer_) victims_.clear(static_cast<size_t>(n_experts_used_));
    victims_layer_ = layer;
    const auto l = static_cast<size_t>(layer);
    const size_t index = victims_.next(residents, [&](ExpertNumber expert) {
      return turns_.layer_of(expert) == l ? last_use_[static_cast<size_t>(expert)] : Victims::kNever;
    });
    if (index < residents.size()) {
      --evictable_[l];
      --above_[l];
      return index;
    }
    evictable_[l] = 0;  // pinned since they were counted
  }
  count_residents(residents);
  SOLI_CHECK(layer_most_above() >= 0, "no expert may go");
  return choose_victim(residents);
}

}  // namespace soli
