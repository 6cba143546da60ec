#include "experts/shares_policy.h"

#include <algorithm>
#include <numeric>

namespace soli {
namespace {

constexpr float kDecay = 0.997f;
constexpr double kMargin = 1.2;

}  // namespace

SharesPolicy::SharesPolicy(const CacheShape& shape)
    : shape_(shape),
      window_(std::max<int64_t>(1, shape.n_experts / 16)),
      shares_(static_cast<size_t>(shape.n_layers)),
      calls_at_(static_cast<size_t>(shape.n_layers * shape.n_experts)),
      last_use_(static_cast<size_t>(shape.n_layers * shape.n_experts)),
      evictable_(shares_.size()),
      above_(shares_.size()) {
  const int64_t n_slots = std::min(shape.n_slots, shape.n_layers * shape.n_experts);
  for (int64_t l = 0; l < shape.n_layers; ++l)
    shares_[static_cast<size_t>(l)] = (l + 1) * n_slots / shape.n_layers - l * n_slots / shape.n_layers;
}

void SharesPolicy::on_visit(const LayerVisit& visit) {
  counted_ = false;
  visit_.layer = visit.layer;
  n_visited_ = static_cast<int64_t>(visit.experts.size());
  n_visits_ += 1;
  measure(visit);
  for (size_t i = 0; i < visit.experts.size(); ++i) {
    last_use_[static_cast<size_t>(visit.layer * shape_.n_experts + visit.experts[i])] =
        n_visits_ + static_cast<double>(visit.calls[i]) / (static_cast<double>(visit.n_tokens) + 1);
  }
  if (visit.layer == shape_.n_layers - 1) move_shares();
}

void SharesPolicy::measure(const LayerVisit& visit) {
  float* const calls_at = calls_at_.data() + visit.layer * shape_.n_experts;
  const double* const uses = last_use_.data() + visit.layer * shape_.n_experts;
  for (int64_t e = 0; e < shape_.n_experts; ++e) calls_at[e] *= kDecay;
  for (const int32_t expert : visit.experts) {
    const double use = uses[expert];
    if (use == 0) continue;
    int64_t newer = 0;
    for (int64_t e = 0; e < shape_.n_experts; ++e) newer += uses[e] > use;
    calls_at[newer] += 1;
  }
}

double SharesPolicy::calls_between(int64_t layer, int64_t begin, int64_t end) const {
  begin = std::max<int64_t>(begin, 0);
  end = std::min(end, shape_.n_experts);
  const float* const calls_at = calls_at_.data() + layer * shape_.n_experts;
  return std::accumulate(calls_at + begin, calls_at + end, 0.0) / static_cast<double>(end - begin);
}

void SharesPolicy::move_shares() {
  int64_t to = -1, from = -1;
  double best = 0, least = 0;
  for (int64_t l = 0; l < shape_.n_layers; ++l) {
    const int64_t share = shares_[static_cast<size_t>(l)];
    const double gain = share == shape_.n_experts ? 0 : calls_between(l, share, share + window_);
    const double loss = share == 1 ? 0 : calls_between(l, share - window_, share);
    if (share < shape_.n_experts && (to < 0 || gain > best)) {
      best = gain;
      to = l;
    }
    if (share > 1 && (from < 0 || loss < least)) {
      least = loss;
      from = l;
    }
  }
  if (to < 0 || from < 0 || from == to) return;
  if (best < kMargin * least + 1) return;
  ++shares_[static_cast<size_t>(to)];
  --shares_[static_cast<size_t>(from)];
}

void SharesPolicy::count_residents(std::span<const ExpertNumber> residents) {
  counted_ = true;
  victims_layer_ = -1;
  std::fill(evictable_.begin(), evictable_.end(), 0);
  for (const ExpertNumber expert : residents) {
    if (expert >= 0) ++evictable_[static_cast<size_t>(expert / shape_.n_experts)];
  }
  for (size_t l = 0; l < shares_.size(); ++l) above_[l] = evictable_[l] - shares_[l];
  above_[static_cast<size_t>(visit_.layer)] += n_visited_;
}

size_t SharesPolicy::choose_victim(std::span<const ExpertNumber> residents) {
  if (!counted_) count_residents(residents);
  for (;;) {
    int64_t layer = -1;
    for (int64_t l = 0; l < shape_.n_layers; ++l) {
      const auto i = static_cast<size_t>(l);
      if (evictable_[i] > 0 && (layer < 0 || above_[i] > above_[static_cast<size_t>(layer)])) layer = l;
    }
    if (layer < 0) {  // what the visit itself brought
      count_residents(residents);
      continue;
    }
    if (layer != victims_layer_) victims_.clear();
    victims_layer_ = layer;
    const size_t index = victims_.next(residents, [&](ExpertNumber expert) {
      return expert / shape_.n_experts == layer ? last_use_[static_cast<size_t>(expert)] : Victims::kNever;
    });
    const auto l = static_cast<size_t>(layer);
    if (index == residents.size()) {
      evictable_[l] = 0;
      continue;
    }
    --evictable_[l];
    --above_[l];
    return index;
  }
}

}  // namespace soli
