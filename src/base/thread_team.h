#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace soli {

/// A fixed team of threads for data-parallel phases. The calling thread is member 0. Between phases the
/// others spin for some 50 us, which the gaps within a step do not reach, and then sleep; where there are
/// fewer processors than members, they sleep at once. A phase never waits for a member that has not woken up.
/// Several engines may share a team: phases then run one after another.
class ThreadTeam {
 public:
  static constexpr int kMaxThreads = 1024;

  /// `n_threads` in [1, kMaxThreads], the caller of parallel_for included.
  /// Throws std::system_error where the system has no more threads for it.
  explicit ThreadTeam(int n_threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Keeps each member on a processor of its own, the calling thread as member 0, for as long as the team
  /// lives; what the calling thread starts from here on inherits its place. The calling thread must outlive
  /// the team. Fails with kInvalidArgument where this process may use fewer processors than the team has
  /// members, or with kIo. Call at most once.
  Status pin();
  bool is_pinned() const { return pinned_caller_.has_value(); }

  /// Calls body(begin, end, member) for consecutive ranges of at most `grain` items until [0, n_items) is
  /// covered, and returns when all are done. Which member takes a range is not defined: results must not
  /// depend on it. `body` must not throw and must not call parallel_for.
  void parallel_for(int64_t n_items, int64_t grain,
                    FunctionRef<void(int64_t begin, int64_t end, int member)> body);

  /// The same with ranges that begin long and get shorter, each a multiple of `grain` items but for the last
  /// (Polychronopoulos, Kuck 1987, guided self-scheduling): items that are read as a stream from memory stay
  /// one, and the last member to finish does not keep the others waiting long.
  void parallel_for_shrinking(int64_t n_items, int64_t grain,
                              FunctionRef<void(int64_t begin, int64_t end, int member)> body);

 private:
  using Body = FunctionRef<void(int64_t, int64_t, int)>;

  void worker_loop(int member);
  void stop_workers();
  /// Waits until the word's phase is no longer `seen`; returns the word.
  uint32_t wait_for_phase(uint32_t seen);
  bool join_phase(uint32_t word);
  void leave_phase();
  void close_phase();
  void run(int64_t n_items, int64_t grain, bool shrinking, const Body& body);
  void take_ranges(int member);
  int64_t range_items(int64_t n_left) const;

  struct PinnedCaller {
    pthread_t thread;
    cpu_set_t previous;
  };

  std::mutex phase_mutex_;  // one phase at a time
  const std::chrono::nanoseconds spin_;
  // All that a phase begins with is on one cache line.
  alignas(64) std::atomic<uint32_t> word_{0};  // the phase's number, whether it is open, workers in it
  int64_t n_items_ = 0;
  int64_t grain_ = 1;
  bool shrinking_ = false;
  const Body* body_ = nullptr;
  alignas(64) std::atomic<int64_t> next_item_{0};
  alignas(64) std::atomic<uint32_t> n_ends_{0};  // grows when a closed phase has lost its last worker
  std::atomic<bool> stop_{false};
  std::optional<PinnedCaller> pinned_caller_;
  std::vector<std::thread> workers_;
};

}  // namespace soli
