#include "base/thread_team.h"

#include <immintrin.h>

#include <algorithm>
#include <system_error>

#include "base/affinity.h"
#include "base/check.h"

namespace soli {
namespace {

// Longer than the gap between two phases of a step, shorter than a time slice.
constexpr std::chrono::microseconds kSpin{50};
/// A pause takes 10 to 150 cycles, depending on the processor: the clock is looked at after so many.
constexpr int kPausesPerLook = 32;

// The word: workers in the phase, whether it takes more, its number.
constexpr uint32_t kWorkers = (uint32_t{1} << 12) - 1;
constexpr uint32_t kOpen = uint32_t{1} << 12;
constexpr uint32_t kOnePhase = uint32_t{1} << 13;

uint32_t phase_of(uint32_t word) { return word / kOnePhase; }

/// Whether `done()` came true within `limit`.
template <typename Done>
bool spin_until(std::chrono::nanoseconds limit, Done done) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = {};
  while (true) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (done()) return true;
      _mm_pause();
    }
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point{}) end = now + limit;
    if (now >= end) return false;
  }
}

}  // namespace

ThreadTeam::ThreadTeam(int n_threads)
    // Who spins on a processor that a working member needs only delays it.
    : spin_(n_threads <= usable_cores() ? kSpin : std::chrono::microseconds(0)) {
  SOLI_CHECK(n_threads >= 1 && n_threads <= kMaxThreads, "{} threads", n_threads);
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  try {
    for (int member = 1; member < n_threads; ++member) {
      workers_.emplace_back([this, member] { worker_loop(member); });
    }
  } catch (const std::system_error&) {  // no more of them are allowed
    stop_workers();
    throw;
  }
}

void ThreadTeam::stop_workers() {
  stop_.store(true, std::memory_order_relaxed);
  word_.fetch_add(kOnePhase, std::memory_order_release);
  word_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

ThreadTeam::~ThreadTeam() {
  stop_workers();
  if (pinned_caller_) static_cast<void>(set_affinity(pinned_caller_->thread, pinned_caller_->previous));
}

Status ThreadTeam::pin() {
  SOLI_CHECK(!is_pinned());
  const std::vector<int> cpus = usable_cpus();
  if (static_cast<int>(cpus.size()) < size()) {
    return fail(ErrorKind::kInvalidArgument,
                "{} threads cannot be pinned, each to a processor of its own: this process may use {}",
                size(), cpus.size());
  }
  const pthread_t caller = ::pthread_self();
  SOLI_ASSIGN_OR_RETURN(const cpu_set_t previous, affinity_of(caller));
  for (size_t i = 0; i < workers_.size(); ++i) {
    SOLI_RETURN_IF_ERROR(set_affinity(workers_[i].native_handle(), only_cpu(cpus[i + 1])));
  }
  SOLI_RETURN_IF_ERROR(set_affinity(caller, only_cpu(cpus[0])));
  pinned_caller_ = {caller, previous};
  return {};
}

void ThreadTeam::parallel_for(int64_t n_items, int64_t grain, Body body) {
  SOLI_CHECK(grain >= 1 && n_items >= 0);
  if (n_items == 0) return;
  if (workers_.empty() || n_items <= grain) {
    for (int64_t begin = 0; begin < n_items; begin += grain) body(begin, std::min(begin + grain, n_items), 0);
    return;
  }
  run(n_items, grain, false, body);
}

void ThreadTeam::parallel_for_shrinking(int64_t n_items, int64_t grain, Body body) {
  SOLI_CHECK(grain >= 1 && n_items >= 0);
  if (n_items == 0) return;
  if (workers_.empty() || n_items <= grain) return body(0, n_items, 0);
  run(n_items, grain, true, body);
}

void ThreadTeam::run(int64_t n_items, int64_t grain, bool shrinking, const Body& body) {
  const std::lock_guard lock(phase_mutex_);
  body_ = &body;
  n_items_ = n_items;
  grain_ = grain;
  shrinking_ = shrinking;
  next_item_.store(0, std::memory_order_relaxed);
  // Nobody but this thread writes the word between phases.
  word_.store(word_.load(std::memory_order_relaxed) + kOnePhase + kOpen, std::memory_order_release);
  word_.notify_all();
  take_ranges(0);
  close_phase();
}

/// Lets nobody in any more and waits for those who are in.
void ThreadTeam::close_phase() {
  const auto is_empty = [&] { return (word_.load(std::memory_order_acquire) & kWorkers) == 0; };
  if ((word_.fetch_and(~kOpen, std::memory_order_acq_rel) & kWorkers) == 0) return;
  if (spin_until(spin_, is_empty)) return;
  while (true) {
    const uint32_t n_ends = n_ends_.load(std::memory_order_acquire);
    if (is_empty()) return;
    n_ends_.wait(n_ends, std::memory_order_acquire);
  }
}

bool ThreadTeam::join_phase(uint32_t word) {
  while ((word & kOpen) != 0) {
    if (word_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadTeam::leave_phase() {
  const uint32_t left = word_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if ((left & (kOpen | kWorkers)) != 0) return;
  n_ends_.fetch_add(1, std::memory_order_release);
  n_ends_.notify_one();
}

uint32_t ThreadTeam::wait_for_phase(uint32_t seen) {
  uint32_t word = 0;
  const auto is_new = [&] {
    word = word_.load(std::memory_order_acquire);
    return phase_of(word) != seen;
  };
  if (spin_until(spin_, is_new)) return word;
  while (!is_new()) word_.wait(word, std::memory_order_acquire);
  return word;
}

void ThreadTeam::worker_loop(int member) {
  uint32_t seen = 0;
  while (true) {
    const uint32_t word = wait_for_phase(seen);
    seen = phase_of(word);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!join_phase(word)) continue;
    take_ranges(member);
    leave_phase();
  }
}

void ThreadTeam::take_ranges(int member) {
  int64_t begin = next_item_.load(std::memory_order_relaxed);
  while (begin < n_items_) {
    const int64_t end = begin + range_items(n_items_ - begin);
    if (!next_item_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    (*body_)(begin, end, member);
    begin = next_item_.load(std::memory_order_relaxed);
  }
}

/// Items of the next range, of n_left that nobody has taken.
int64_t ThreadTeam::range_items(int64_t n_left) const {
  const int64_t share = shrinking_ ? n_left / (2 * size()) / grain_ * grain_ : grain_;
  return std::min(std::max(share, grain_), n_left);
}

}  // namespace soli
