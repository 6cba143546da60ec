#include "model/router.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "base/check.h"
#include "model/choice_limits.h"
#include "model/choice_weights.h"

namespace soli {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// Room of one thread, used from row to row.
struct SelectScratch {
  std::span<float> ranked;   // [n_experts] what the choice goes by; kExcluded for groups that take no part
  std::span<int32_t> order;  // [n_experts]
  std::span<float> groups;   // [n_groups]
  std::span<int32_t> calls;  // [n_experts] within a capacity window
};

/// What one row chose.
struct ChosenRow {
  std::span<int32_t> ids;    // [k_max]
  std::span<float> weights;  // [k_max]
  int64_t n = 0;             // how many of them count
};

/// The memory of a select_experts(), cut from the context's scratch.
class SelectRoom {
 public:
  SelectRoom(OpContext& context, const RouterSpec& spec, int64_t n_rows, int64_t k_max)
      : n_experts_(static_cast<size_t>(spec.n_experts)),
        n_groups_(static_cast<size_t>(spec.n_groups)),
        n_rows_(static_cast<size_t>(n_rows)),
        k_max_(static_cast<size_t>(k_max)) {
    const auto n_members = static_cast<size_t>(context.team.size());
    const size_t n_floats = n_members * (n_experts_ + n_groups_) + n_rows_ * k_max_;
    const size_t n_ids = 2 * n_members * n_experts_ + n_rows_ * k_max_;
    const size_t bytes = n_rows_ * sizeof(ChosenRow) + n_floats * sizeof(float) + n_ids * sizeof(int32_t);
    rows_ = reinterpret_cast<ChosenRow*>(context.scratch.take<std::byte>(static_cast<int64_t>(bytes)));
    floats_ = reinterpret_cast<float*>(rows_ + n_rows_);
    ids_ = reinterpret_cast<int32_t*>(floats_ + n_floats);
    float* weights = floats_ + n_members * (n_experts_ + n_groups_);
    int32_t* ids = ids_ + 2 * n_members * n_experts_;
    for (size_t r = 0; r < n_rows_; ++r, weights += k_max_, ids += k_max_) {
      new (rows_ + r) ChosenRow{{ids, k_max_}, {weights, k_max_}};
    }
  }

  SelectScratch scratch_of(int member) const {
    const auto m = static_cast<size_t>(member);
    float* const floats = floats_ + m * (n_experts_ + n_groups_);
    int32_t* const ids = ids_ + 2 * m * n_experts_;
    return {{floats, n_experts_},
            {ids, n_experts_},
            {floats + n_experts_, n_groups_},
            {ids + n_experts_, n_experts_}};
  }
  std::span<ChosenRow> rows() const { return {rows_, n_rows_}; }

 private:
  const size_t n_experts_;
  const size_t n_groups_;
  const size_t n_rows_;
  const size_t k_max_;
  ChosenRow* rows_;
  float* floats_;
  int32_t* ids_;
};

/// Fills `order` with the ids of `score`, the best `k` at its front, best first; equal scores in order of id.
void order_best_first(std::span<const float> score, int64_t k, std::span<int32_t> order) {
  std::iota(order.begin(), order.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    const float score_a = score[static_cast<size_t>(a)];
    const float score_b = score[static_cast<size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), better);
}

/// Excludes the experts of all groups but the best n_groups_used; a group's score is the sum of its two best
/// (DeepSeek-V3, section 2.1.2).
void keep_best_groups(const RouterSpec& spec, const SelectScratch& scratch) {
  const auto group_size = static_cast<size_t>(spec.n_experts / spec.n_groups);
  for (size_t g = 0; g < scratch.groups.size(); ++g) {
    float best = kExcluded;
    float second = kExcluded;
    for (size_t e = g * group_size; e < (g + 1) * group_size; ++e) {
      const float score = scratch.ranked[e];
      if (score > best) {
        second = best;
        best = score;
      } else {
        second = std::max(second, score);
      }
    }
    scratch.groups[g] = second == kExcluded ? best : best + second;
  }
  const std::span<int32_t> order = scratch.order.first(scratch.groups.size());
  order_best_first(scratch.groups, spec.n_groups_used, order);
  for (const int32_t group : order.subspan(static_cast<size_t>(spec.n_groups_used))) {
    const size_t first = static_cast<size_t>(group) * group_size;
    std::fill_n(scratch.ranked.begin() + static_cast<std::ptrdiff_t>(first), group_size, kExcluded);
  }
}

const LayerSteering* steering_of(const BatchRow& row, int64_t layer) {
  return row.steering == nullptr ? nullptr : &row.steering->layer(layer);
}

bool has_capacity(const BatchRow& row, int64_t layer) {
  return row.steering != nullptr && row.steering->layer(layer).capacity > 0;
}

/// How many experts a row may choose at most.
int64_t k_max_of(const RouterSpec& spec, const BatchRow& row, int64_t layer) {
  if (const LayerSteering* const steering = steering_of(row, layer)) return steering->k;
  return std::max(spec.experts_per_token, std::min(row.policy->experts_per_token, spec.n_reachable()));
}

void prefer(const RouterSpec& spec, const Selection& selection, const float* scores,
            std::span<float> ranked) {
  const bool by_logit = spec.gating == Gating::kSoftmaxChosen;
  const float gain = by_logit ? std::log(selection.preference) : selection.preference - 1;
  for (size_t e = 0; e < selection.preferred.size(); ++e) {
    if (selection.preferred[e] != 0) ranked[e] += by_logit ? gain : gain * scores[e];
  }
}

ChoiceLimits limits_of(const RouterSpec& spec, const RoutingPolicy& policy, const LayerSteering* steering) {
  if (steering != nullptr) {
    const auto n_forced = static_cast<int64_t>(steering->forced.size());
    return {steering->k, std::max(steering->k_min, n_forced), steering->relative_threshold,
            steering->cumulative_probability, n_forced};
  }
  const int64_t k = policy.experts_per_token == 0 ? spec.experts_per_token
                                                  : std::min(policy.experts_per_token, spec.n_reachable());
  return {k, policy.k_min, policy.relative_threshold};
}

void exclude_masked(const LayerSteering* steering, std::span<float> ranked) {
  if (steering == nullptr) return;
  for (size_t e = 0; e < steering->masked.size(); ++e) {
    if (steering->masked[e] != 0) ranked[e] = kExcluded;
  }
}

/// Those that must be chosen go before all others, whatever their group.
void put_forced_first(const LayerSteering* steering, std::span<float> ranked) {
  if (steering == nullptr) return;
  for (const int32_t id : steering->forced) ranked[static_cast<size_t>(id)] = -kExcluded;
}

/// Ranks the experts of a row, best first; of `n_ordered` at least, those that may be chosen are in order.
/// Returns how many of these there are.
int64_t rank_experts(const RouterSpec& spec, const Selection& selection, const LayerSteering* steering,
                     const float* logits, const float* scores, int64_t n_ordered,
                     const SelectScratch& scratch) {
  const auto n_experts = static_cast<size_t>(spec.n_experts);
  const float* ranking = spec.gating == Gating::kSoftmaxChosen ? logits : scores;
  std::copy_n(ranking, n_experts, scratch.ranked.begin());
  for (size_t e = 0; e < selection.bias.size(); ++e) scratch.ranked[e] += selection.bias[e];
  exclude_masked(steering, scratch.ranked);
  if (spec.n_groups_used < spec.n_groups) keep_best_groups(spec, scratch);
  prefer(spec, selection, scores, scratch.ranked);
  put_forced_first(steering, scratch.ranked);
  order_best_first(scratch.ranked, n_ordered, scratch.order);
  const auto may_be_chosen = [&](int64_t i) {
    return scratch.ranked[static_cast<size_t>(scratch.order[static_cast<size_t>(i)])] > kExcluded;
  };
  while (steering != nullptr && n_ordered > 0 && !may_be_chosen(n_ordered - 1)) --n_ordered;
  return n_ordered;
}

void select_row(const RouterSpec& spec, const Selection& selection, const BatchRow& row, const float* logits,
                const float* scores, const SelectScratch& scratch, ChosenRow& chosen) {
  const LayerSteering* const steering = steering_of(row, selection.layer);
  const bool is_limited = has_capacity(row, selection.layer);
  const int64_t n_ordered = is_limited ? spec.n_experts : k_max_of(spec, row, selection.layer);
  const int64_t n = rank_experts(spec, selection, steering, logits, scores, n_ordered, scratch);
  const std::span<int32_t> order = scratch.order.first(static_cast<size_t>(n));
  const ChoiceLimits limits = limits_of(spec, *row.policy, steering);
  const std::span<const float> row_scores(scores, static_cast<size_t>(spec.n_experts));
  chosen.n = apply_limits(limits, row_scores, order.first(static_cast<size_t>(std::min(limits.k, n))));
  if (is_limited) {
    const CapacityWindow window(*row.steering, *steering, row, scratch.calls);
    chosen.n = window.apply(limits.n_forced, chosen.n, order, selection.overflow);
    window.record(order.first(static_cast<size_t>(chosen.n)));
  }
  const auto kept = static_cast<size_t>(chosen.n);
  if (limits.n_forced > 0) {
    std::stable_sort(order.begin(), order.begin() + chosen.n,
                     [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  }
  std::copy_n(order.begin(), kept, chosen.ids.begin());
  weigh_experts(spec, logits, scores, chosen.ids.first(kept), chosen.weights.first(kept));
}

}  // namespace

std::span<const int32_t> Choice::ids_of(int64_t row) const {
  const auto begin = static_cast<size_t>(row_begin[static_cast<size_t>(row)]);
  const auto end = static_cast<size_t>(row_begin[static_cast<size_t>(row) + 1]);
  return std::span(ids).subspan(begin, end - begin);
}

std::span<const float> Choice::weights_of(int64_t row) const {
  const auto begin = static_cast<size_t>(row_begin[static_cast<size_t>(row)]);
  const auto end = static_cast<size_t>(row_begin[static_cast<size_t>(row) + 1]);
  return std::span(weights).subspan(begin, end - begin);
}

void score_row(const kernels::KernelTable& kernels, const RouterSpec& spec, const float* logits,
               float* scores) {
  if (spec.gating == Gating::kSigmoid) {
    kernels.sigmoid(logits, spec.n_experts, scores);
  } else {
    std::copy_n(logits, spec.n_experts, scores);
    kernels.softmax(scores, spec.n_experts);
  }
}

void router_scores(OpContext& context, const RouterSpec& spec, MatrixView<const float> logits,
                   MatrixView<float> scores) {
  SOLI_CHECK(scores.rows == logits.rows && scores.cols == logits.cols);
  context.team.parallel_for(logits.rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      score_row(context.kernels, spec, logits.row(row), scores.row(row));
  });
}

void select_experts(OpContext& context, const RouterSpec& spec, const Selection& selection,
                    std::span<const BatchRow> rows, MatrixView<const float> logits,
                    MatrixView<const float> scores, Choice& choice, std::span<uint8_t> row_failed) {
  const auto n_rows = static_cast<int64_t>(rows.size());
  SOLI_CHECK(logits.rows == n_rows && scores.rows == n_rows && logits.cols == spec.n_experts);
  for (const size_t n : {selection.bias.size(), selection.preferred.size()})
    SOLI_CHECK(n == 0 || static_cast<int64_t>(n) == spec.n_experts);
  SOLI_CHECK(spec.n_experts % spec.n_groups == 0 && spec.n_groups_used >= 1 &&
             spec.n_groups_used <= spec.n_groups);
  int64_t k_max = spec.experts_per_token;
  for (const BatchRow& row : rows) k_max = std::max(k_max, k_max_of(spec, row, selection.layer));
  const SelectRoom room(context, spec, n_rows, k_max);
  const auto select = [&](int64_t row, int member) {
    const auto r = static_cast<size_t>(row);
    if (!context.kernels.all_finite(logits.row(row), logits.cols)) {
      row_failed[r] = 1;
      return;
    }
    select_row(spec, selection, rows[r], logits.row(row), scores.row(row), room.scratch_of(member),
               room.rows()[r]);
  };
  const auto waits = [&](int64_t row) {
    return has_capacity(rows[static_cast<size_t>(row)], selection.layer);
  };
  context.team.parallel_for(n_rows, 16, [&](int64_t begin, int64_t end, int member) {
    for (int64_t row = begin; row < end; ++row) {
      if (!waits(row)) select(row, member);
    }
  });
  // Where room is limited, a row looks at the choice of those before it.
  for (int64_t row = 0; row < n_rows; ++row) {
    if (waits(row)) select(row, 0);
  }
  choice.row_begin.assign(1, 0);
  choice.ids.clear();
  choice.weights.clear();
  for (const ChosenRow& row : room.rows()) {
    choice.ids.insert(choice.ids.end(), row.ids.begin(), row.ids.begin() + row.n);
    choice.weights.insert(choice.weights.end(), row.weights.begin(), row.weights.begin() + row.n);
    choice.row_begin.push_back(static_cast<int32_t>(choice.ids.size()));
  }
}

void check_choice(const RouterSpec& spec, const Choice& choice, int64_t n_rows) {
  SOLI_CHECK(choice.n_rows() == n_rows && choice.row_begin.front() == 0 &&
             choice.row_begin.back() == choice.n_slots());
  SOLI_CHECK(choice.weights.size() == choice.ids.size());
  std::vector<int32_t> sorted;
  for (int64_t row = 0; row < n_rows; ++row) {
    SOLI_CHECK(choice.row_begin[static_cast<size_t>(row)] <= choice.row_begin[static_cast<size_t>(row) + 1]);
    const std::span<const int32_t> ids = choice.ids_of(row);
    sorted.assign(ids.begin(), ids.end());
    std::sort(sorted.begin(), sorted.end());
    SOLI_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
               "row {} names an expert twice", row);
    SOLI_CHECK(sorted.empty() || (sorted.front() >= 0 && sorted.back() < spec.n_experts), "row {}", row);
    for (const float weight : choice.weights_of(row)) SOLI_CHECK(std::isfinite(weight), "row {}", row);
  }
}

}  // namespace soli
