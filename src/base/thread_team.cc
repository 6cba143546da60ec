#include "base/thread_team.h"

#include <immintrin.h>

#include <algorithm>

#include "base/check.h"

namespace soli {
namespace {

// About 20 us on this kind of machine: longer than the gap between two phases of a step, shorter than a time
// slice.
constexpr int kSpins = 400;
/// Bit of ThreadTeam::gate_; the bits below count the workers in the phase.
constexpr uint32_t kOpen = uint32_t{1} << 31;

/// Waits until `word` differs from `old`: spins briefly, then sleeps in the kernel.
void wait_while_equal(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (word.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int n_threads) {
  SOLI_CHECK(n_threads >= 1 && n_threads <= kMaxThreads, "{} threads", n_threads);
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  for (int member = 1; member < n_threads; ++member) {
    workers_.emplace_back([this, member] { worker_loop(member); });
  }
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::parallel_for(int64_t n_items, int64_t grain, Body body) {
  SOLI_CHECK(grain >= 1 && n_items >= 0);
  if (n_items == 0) return;
  if (workers_.empty() || n_items <= grain) {
    for (int64_t begin = 0; begin < n_items; begin += grain) body(begin, std::min(begin + grain, n_items), 0);
    return;
  }
  const std::lock_guard lock(phase_mutex_);
  body_ = &body;
  n_items_ = n_items;
  grain_ = grain;
  next_item_.store(0, std::memory_order_relaxed);
  gate_.store(kOpen, std::memory_order_release);
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
  take_ranges(0);
  close_phase();
}

/// Lets nobody in any more and waits for those who are in.
void ThreadTeam::close_phase() {
  uint32_t left = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while (left != 0) {
    wait_while_equal(gate_, left);
    left = gate_.load(std::memory_order_acquire);
  }
}

bool ThreadTeam::join_phase() {
  uint32_t gate = gate_.load(std::memory_order_acquire);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadTeam::leave_phase() {
  // 1 left: the phase is closed, and this was the last worker in it.
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) gate_.notify_one();
}

void ThreadTeam::worker_loop(int member) {
  uint32_t seen_phase = 0;
  while (true) {
    wait_while_equal(phase_, seen_phase);
    seen_phase = phase_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!join_phase()) continue;
    take_ranges(member);
    leave_phase();
  }
}

void ThreadTeam::take_ranges(int member) {
  while (true) {
    const int64_t begin = next_item_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= n_items_) return;
    (*body_)(begin, std::min(begin + grain_, n_items_), member);
  }
}

}  // namespace soli
