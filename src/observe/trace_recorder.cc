#include "observe/trace_recorder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/policy_text.h"

namespace soli {
namespace {

void count_one(std::atomic<int64_t>& counter) {  // which one thread alone writes
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Of more experts than there are slots, which only a control can choose, the first ones stay.
template <typename Id>
void copy_choice(std::span<const Id> ids, std::span<const float> weights, int64_t layer, int64_t k,
                 const TraceSlot& slot) {
  const size_t n = std::min(ids.size(), static_cast<size_t>(k));
  const auto at = static_cast<size_t>(layer * k);
  for (size_t i = 0; i < n; ++i) slot.ids[at + i] = static_cast<int16_t>(ids[i]);
  std::copy_n(weights.begin(), n, slot.weights.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

TraceRecorder::TraceRecorder(const ModelSpec& spec, const TraceShape& shape, const TraceSampling& sampling,
                             TraceRing& ring)
    : shape_(shape), sampling_(sampling), ring_(ring), place_(static_cast<size_t>(spec.n_layers), -1) {
  for (size_t i = 0; i < shape_.moe_layers.size(); ++i)
    place_[static_cast<size_t>(shape_.moe_layers[i])] = static_cast<int64_t>(i);
}

void TraceRecorder::on_request(RequestId request, int64_t n_prompt, const RoutingPolicy& policy) {
  if (!sampling_.of_tokens && !sampling_.takes(request, 0)) return;
  TraceRequest begun = {.id = request,
                        .started = seconds_since_1970(),
                        .n_prompt = n_prompt,
                        .policy = policy_json(policy).dump()};
  const std::lock_guard lock(requests_mutex_);
  if (requests_.size() < kMostRequests) requests_.push_back(std::move(begun));
}

std::vector<TraceRequest> TraceRecorder::take_requests() {
  const std::lock_guard lock(requests_mutex_);
  return std::exchange(requests_, {});
}

void TraceRecorder::begin_row(int64_t i, const TraceSlot::Head& head) {
  const TraceSlot slot = ring_.next(i);
  *slot.head = head;
  std::fill(slot.ids.begin(), slot.ids.end(), int16_t{-1});
  std::fill(slot.weights.begin(), slot.weights.end(), 0.0F);
}

void TraceRecorder::on_kept(const KeptChoice& choice) {
  if (!sampling_.takes(choice.request, choice.position)) return count_one(n_sampled_out_);
  if (ring_.n_free() == 0) return count_one(n_dropped_);
  begin_row(0, {choice.request, choice.position, choice.token, true});
  const TraceSlot slot = ring_.next(0);
  for (int64_t layer = 0; layer < shape_.n_layers(); ++layer) {
    const uint32_t begin = choice.layer_begin[static_cast<size_t>(layer)];
    const uint32_t n = choice.layer_begin[static_cast<size_t>(layer) + 1] - begin;
    copy_choice(choice.ids.subspan(begin, n), choice.weights.subspan(begin, n), layer, shape_.k, slot);
  }
  ring_.publish(1);
}

/// Finds room for the rows of a step. Of a step that failed before its last layer, what it had is used again.
void TraceRecorder::claim(std::span<const BatchRow> rows) {
  const int64_t n_free = ring_.n_free();
  n_claimed_ = 0;
  claimed_.assign(rows.size(), -1);
  for (size_t r = 0; r < rows.size(); ++r) {
    const BatchRow& row = rows[r];
    if (!sampling_.takes(row.request, row.position)) {
      count_one(n_sampled_out_);
    } else if (n_claimed_ == n_free) {
      count_one(n_dropped_);
    } else {
      begin_row(n_claimed_, {row.request, row.position, row.token, false});
      claimed_[r] = n_claimed_++;
    }
  }
}

void TraceRecorder::copy_logits(const RouterView& view, int64_t row, int64_t layer,
                                const TraceSlot& slot) const {
  if (!shape_.has_logits) return;
  std::copy_n(view.logits.row(row), shape_.n_experts,
              slot.logits.begin() + static_cast<std::ptrdiff_t>(layer * shape_.n_experts));
}

void TraceRecorder::on_route(const RouterView& view, const Choice& choice) {
  const int64_t layer = place_[static_cast<size_t>(view.layer)];
  if (layer == 0) claim(view.rows);
  for (int64_t row = 0; row < choice.n_rows(); ++row) {
    const int64_t claimed = claimed_[static_cast<size_t>(row)];
    if (claimed < 0) continue;
    const TraceSlot slot = ring_.next(claimed);
    copy_choice(choice.ids_of(row), choice.weights_of(row), layer, shape_.k, slot);
    copy_logits(view, row, layer, slot);
  }
  if (layer == shape_.n_layers() - 1) ring_.publish(std::exchange(n_claimed_, 0));
  if (next_ != nullptr) next_->on_route(view, choice);
}

}  // namespace soli
