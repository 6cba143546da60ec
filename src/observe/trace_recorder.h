#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "model/choice_recorder.h"
#include "observe/trace_ring.h"

namespace soli {

/// Copies choices into a ring from which a TraceWriter takes them. Never waits for the disk: tokens for which
/// the ring has no room are counted and lost. Allocates nothing per token.
class TraceRecorder final : public ChoiceRecorder {
 public:
  /// `ring` is borrowed, and `shape` is that of its rows.
  TraceRecorder(const ModelSpec& spec, const TraceShape& shape, const TraceSampling& sampling,
                TraceRing& ring);

  void on_request(RequestId request, int64_t n_prompt, const RoutingPolicy& policy) override;
  void on_kept(const KeptChoice& choice) override;
  void begin_step(RouterObserver* next) override { next_ = next; }
  /// A row whose logits are not finite chose nothing: it is recorded with no experts.
  void on_route(const RouterView& view, const Choice& choice) override;

  // From any thread.
  int64_t n_dropped() const { return n_dropped_.load(std::memory_order_relaxed); }
  int64_t n_sampled_out() const { return n_sampled_out_.load(std::memory_order_relaxed); }
  /// The requests that have begun since the last call. A row's request comes no later than the row.
  std::vector<TraceRequest> take_requests();

 private:
  // Of requests that the writer has yet to take; those beyond it are lost, and their tokens stay.
  static constexpr size_t kMostRequests = 4096;

  void claim(std::span<const BatchRow> rows);
  /// The head of the i-th next row, whose slots are emptied; false where the ring is full.
  void begin_row(int64_t i, const TraceSlot::Head& head);
  void copy_logits(const RouterView& view, int64_t row, int64_t layer, const TraceSlot& slot) const;

  const TraceShape shape_;
  const TraceSampling sampling_;
  TraceRing& ring_;
  std::vector<int64_t> place_;  // [layers of the model] among those with experts, or -1
  RouterObserver* next_ = nullptr;
  std::vector<int64_t> claimed_;  // [rows of the step] which of the ring's next rows, or -1
  int64_t n_claimed_ = 0;
  std::atomic<int64_t> n_dropped_ = 0;
  std::atomic<int64_t> n_sampled_out_ = 0;
  std::mutex requests_mutex_;  // held for as long as it takes to append one, or to swap
  std::vector<TraceRequest> requests_;
};

}  // namespace soli
