#include "observe/layer_statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

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
  n_calls_ += static_cast<int64_t>(calls.size());
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
  result.n_calls = n_calls_;
  if (n_pairs_ > 0) {
    result.stability = overlap_sum_ / static_cast<double>(n_pairs_);
    result.top1_change_rate = static_cast<double>(top1_changes_) / static_cast<double>(n_pairs_);
  }
  if (n_calls_ > 0) add_shares(result);
  return result;
}

void LayerStatistics::add_shares(LayerActivation& result) const {
  const auto n_experts = static_cast<double>(calls_.size());
  const auto n_tokens = static_cast<double>(n_tokens_);
  const auto share = [&](int64_t calls) {
    return static_cast<double>(calls) / static_cast<double>(n_calls_);
  };
  const auto hottest = std::max_element(calls_.begin(), calls_.end());
  const auto coldest = std::min_element(calls_.begin(), calls_.end());
  result.hottest_expert = hottest - calls_.begin();
  result.hottest_share = share(*hottest);
  result.coldest_expert = coldest - calls_.begin();
  result.coldest_share = share(*coldest);
  result.share_max_over_mean = result.hottest_share * n_experts;
  double variance = 0;
  for (const int64_t calls : calls_) {
    const double s = share(calls);
    variance += (s - 1 / n_experts) * (s - 1 / n_experts) / n_experts;
    if (calls == 0) continue;
    ++result.distinct_experts;
    result.routing_entropy_bits -= s * std::log2(s);
    result.expected_union += 1 - std::pow(1 - static_cast<double>(calls) / n_tokens, n_tokens);
  }
  // Of one expert with all the calls the sum is -0.
  result.routing_entropy_bits = std::max(0.0, result.routing_entropy_bits);
  if (calls_.size() > 1)
    result.routing_entropy_normalised = result.routing_entropy_bits / std::log2(n_experts);
  result.share_variation = std::sqrt(variance) * n_experts;
  result.never_called = 1 - static_cast<double>(result.distinct_experts) / n_experts;
  result.sharing_gain = result.expected_union / static_cast<double>(result.distinct_experts);
}

}  // namespace soli
