#include "observe/trace_ring.h"

#include <algorithm>

#include "base/check.h"

namespace soli {
namespace {

constexpr int64_t kRowAlignment = 64;  // of two rows, of which two threads may each have one

}  // namespace

int64_t TraceRing::slot_bytes(const TraceShape& shape) {
  const int64_t bytes = static_cast<int64_t>(sizeof(TraceSlot::Head)) + shape.weights_bytes() +
                        shape.logits_bytes() + shape.ids_bytes();
  return (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

Result<Slab> TraceRing::allocate(Budget& budget, const TraceShape& shape, int64_t bytes) {
  return Slab::allocate(budget, "trace", std::max(bytes, slot_bytes(shape)));
}

TraceRing::TraceRing(Slab slab, const TraceShape& shape)
    : slab_(std::move(slab)),
      n_slots_(shape.n_slots()),
      n_logits_(shape.n_logits()),
      slot_bytes_(slot_bytes(shape)),
      capacity_(slab_.bytes() / slot_bytes_) {
  SOLI_CHECK(capacity_ > 0, "{} bytes", slab_.bytes());
}

TraceSlot TraceRing::slot(int64_t number) const {
  // The slab is const since it stays; what is in it belongs to one side or the other.
  auto* const row = const_cast<std::byte*>(slab_.data()) + number % capacity_ * slot_bytes_;
  auto* const weights = reinterpret_cast<float*>(row + sizeof(TraceSlot::Head));
  float* const logits = weights + n_slots_;
  auto* const ids = reinterpret_cast<int16_t*>(logits + n_logits_);
  return {.head = reinterpret_cast<TraceSlot::Head*>(row),
          .ids = {ids, static_cast<size_t>(n_slots_)},
          .weights = {weights, static_cast<size_t>(n_slots_)},
          .logits = {logits, static_cast<size_t>(n_logits_)}};
}

int64_t TraceRing::n_free() const {
  return capacity_ -
         (n_published_.load(std::memory_order_relaxed) - n_taken_.load(std::memory_order_acquire));
}

void TraceRing::publish(int64_t n) {
  n_published_.store(n_published_.load(std::memory_order_relaxed) + n, std::memory_order_release);
}

int64_t TraceRing::n_ready() const {
  return n_published_.load(std::memory_order_acquire) - n_taken_.load(std::memory_order_relaxed);
}

void TraceRing::take(int64_t n) {
  n_taken_.store(n_taken_.load(std::memory_order_relaxed) + n, std::memory_order_release);
}

}  // namespace soli
