#include "observe/layer_statistics.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "observe/expert_shares.h"

namespace soli {

LayerStatistics::LayerStatistics(int64_t layer, int64_t n_experts)
    : layer_(layer), calls_(static_cast<size_t>(n_experts)) {}

void LayerStatistics::add(int64_t position, std::span<const ExpertCall> calls) {
  current_.clear();
  const ExpertCall* top = nullptr;
  for (const ExpertCall& call : calls) {
    SOLI_CHECK(call.expert >= 0 && static_cast<size_t>(call.expert) < calls_.size(), "expert {}",
               call.expert);
    ++calls_[static_cast<size_t>(call.expert)];
    current_.push_back(call.expert);
    if (top == nullptr || call.weight > top->weight) top = &call;
  }
  std::sort(current_.begin(), current_.end());
  const int32_t top1 = top == nullptr ? -1 : top->expert;
  if (n_tokens_ > 0 && position == previous_position_ + 1) compare_with_previous(top1);
  ++n_tokens_;
  previous_position_ = position;
  previous_top1_ = top1;
  std::swap(previous_, current_);
}

void LayerStatistics::compare_with_previous(int32_t top1) {
  size_t shared = 0;
  for (const int32_t expert : current_) {
    shared += std::binary_search(previous_.begin(), previous_.end(), expert) ? 1 : 0;
  }
  const size_t united = current_.size() + previous_.size() - shared;
  ++n_pairs_;
  overlap_sum_ += united == 0 ? 1 : static_cast<double>(shared) / static_cast<double>(united);
  top1_changes_ += top1 != previous_top1_ ? 1 : 0;
}

LayerActivation LayerStatistics::result() const {
  LayerActivation result;
  result.layer = layer_;
  if (n_pairs_ > 0) {
    result.stability = overlap_sum_ / static_cast<double>(n_pairs_);
    result.top1_change_rate = static_cast<double>(top1_changes_) / static_cast<double>(n_pairs_);
  }
  result.shares = expert_shares(calls_);
  if (result.shares.n_calls == 0) return result;
  result.expected_union = expected_union(calls_, n_tokens_, static_cast<double>(n_tokens_));
  result.sharing_gain = result.expected_union / static_cast<double>(result.shares.distinct);
  return result;
}

}  // namespace soli
