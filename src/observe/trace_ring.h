#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/slab.h"
#include "observe/trace_file.h"

namespace soli {

/// Room for one token's row, within a TraceRing.
struct TraceSlot {
  struct Head {
    uint64_t request = 0;
    int64_t position = 0;
    int32_t token = 0;
    bool is_cached = false;
  };
  Head* head = nullptr;
  std::span<int16_t> ids;    // [layers][k]
  std::span<float> weights;  // [layers][k]
  std::span<float> logits;   // [layers][experts], or empty
};

/// A queue of rows of one size, from one thread to another, in memory that is all taken at once. Neither side
/// ever waits for the other.
class TraceRing {
 public:
  /// As many rows as `bytes` have room for, at least one. Charged to the budget as "trace". Fails with
  /// kLimit.
  static Result<Slab> allocate(Budget& budget, const TraceShape& shape, int64_t bytes);
  static int64_t slot_bytes(const TraceShape& shape);

  TraceRing(Slab slab, const TraceShape& shape);

  int64_t capacity() const { return capacity_; }

  // The side that writes.
  int64_t n_free() const;
  /// Row `i` of the next ones, i < n_free(). Seen by the other side after publish().
  TraceSlot next(int64_t i) const { return slot(n_published_.load(std::memory_order_relaxed) + i); }
  void publish(int64_t n);

  // The side that reads.
  int64_t n_ready() const;
  TraceSlot front(int64_t i) const { return slot(n_taken_.load(std::memory_order_relaxed) + i); }
  void take(int64_t n);

 private:
  TraceSlot slot(int64_t number) const;

  const Slab slab_;
  const int64_t n_slots_;   // of a row
  const int64_t n_logits_;  // of a row
  const int64_t slot_bytes_;
  const int64_t capacity_;
  std::atomic<int64_t> n_published_ = 0;  // since the beginning
  std::atomic<int64_t> n_taken_ = 0;
};

}  // namespace soli
