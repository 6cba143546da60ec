#include "model/choice_limits.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace soli {
namespace {

int64_t apply_relative_threshold(const ChoiceLimits& limits, const float* scores, std::span<int32_t> order) {
  const int64_t k = static_cast<int64_t>(order.size());
  const auto score_of = [&](int32_t expert) { return static_cast<double>(scores[expert]); };
  // A bias of selection may have put an expert of a lower score before one of a higher.
  double best = score_of(order[0]);
  for (const int32_t expert : order) best = std::max(best, score_of(expert));
  int64_t kept = std::min(k, limits.k_min);
  for (int64_t i = kept; i < k; ++i) {
    if (!(score_of(order[static_cast<size_t>(i)]) > limits.relative_threshold * best)) continue;
    std::rotate(order.begin() + kept, order.begin() + i, order.begin() + i + 1);
    ++kept;
  }
  return kept;
}

/// How many of the first ones have the probability together; all where they do not. A probability is the
/// score's share of the scores of all experts: with softmax, the score.
int64_t apply_cumulative_probability(const ChoiceLimits& limits, std::span<const float> scores,
                                     std::span<const int32_t> order) {
  double total = 0;
  for (const float score : scores) total += static_cast<double>(score);
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    sum += static_cast<double>(scores[static_cast<size_t>(order[i])]);
    const auto n = static_cast<int64_t>(i) + 1;
    if (n >= limits.k_min && sum >= limits.cumulative_probability * total) return n;
  }
  return static_cast<int64_t>(order.size());
}

}  // namespace

int64_t apply_limits(const ChoiceLimits& limits, std::span<const float> scores, std::span<int32_t> order) {
  int64_t kept = static_cast<int64_t>(order.size());
  if (kept > 0 && limits.relative_threshold > 0)
    kept = apply_relative_threshold(limits, scores.data(), order);
  if (limits.cumulative_probability < 1) {
    kept = apply_cumulative_probability(limits, scores, order.first(static_cast<size_t>(kept)));
  }
  return kept;
}

CapacityWindow::CapacityWindow(const Steering& steering, const LayerSteering& layer, const BatchRow& row,
                               std::span<int32_t> calls)
    : steering_(steering), layer_(layer), row_(row), calls_(calls) {
  SOLI_CHECK(!row.states.empty(), "a policy with capacity needs steering state");
  std::fill(calls.begin(), calls.end(), 0);
  const int64_t begin = row.position / steering.capacity_window() * steering.capacity_window();
  for (int64_t position = begin; position < row.position; ++position) add(chosen(position));
}

int64_t CapacityWindow::apply(int64_t n_forced, int64_t kept, std::span<int32_t> order,
                              OverflowCounts* counts) const {
  OverflowCounts here;
  auto next = static_cast<size_t>(kept);
  auto n = static_cast<size_t>(n_forced);
  for (auto i = n; i < static_cast<size_t>(kept); ++i) {
    if (has_room(order[i])) {
      order[n++] = order[i];
      continue;
    }
    while (steering_.overflow() == Overflow::kNext && next < order.size() && !has_room(order[next])) ++next;
    if (steering_.overflow() == Overflow::kNext && next < order.size()) {
      order[n++] = order[next++];
      ++here.n_moved;
    } else {
      ++here.n_dropped;
    }
  }
  if (counts != nullptr) {
    counts->n_moved += here.n_moved;
    counts->n_dropped += here.n_dropped;
  }
  return static_cast<int64_t>(n);
}

void CapacityWindow::record(std::span<const int32_t> ids) const {
  uint32_t* const words = chosen(row_.position);
  std::fill_n(words, steering_.layout().n_words(), 0U);
  for (const int32_t id : ids) words[id / 32] |= 1U << (id % 32);
}

void CapacityWindow::add(const uint32_t* words) {
  for (int64_t w = 0; w < steering_.layout().n_words(); ++w) {
    for (uint32_t left = words[w]; left != 0; left &= left - 1)
      ++calls_[static_cast<size_t>(w * 32 + std::countr_zero(left))];
  }
}

}  // namespace soli
