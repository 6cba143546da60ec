#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace soli {

/// A fixed team of threads for data-parallel phases. The calling thread is member 0. Between phases the
/// others spin for some microseconds and then sleep. Several engines may share a team: phases then run one
/// after another.
class ThreadTeam {
 public:
  static constexpr int kMaxThreads = 1024;

  /// `n_threads` in [1, kMaxThreads], the caller of parallel_for included.
  explicit ThreadTeam(int n_threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(begin, end, member) for consecutive ranges of at most `grain` items until [0, n_items) is
  /// covered, and returns when all are done. Which member takes a range is not defined: results must not
  /// depend on it. `body` must not throw and must not call parallel_for.
  void parallel_for(int64_t n_items, int64_t grain,
                    FunctionRef<void(int64_t begin, int64_t end, int member)> body);

 private:
  using Body = FunctionRef<void(int64_t, int64_t, int)>;

  void worker_loop(int member);
  bool join_phase();
  void leave_phase();
  void close_phase();
  void take_ranges(int member);

  std::mutex phase_mutex_;  // one phase at a time
  const Body* body_ = nullptr;
  int64_t n_items_ = 0;
  int64_t grain_ = 1;
  alignas(64) std::atomic<int64_t> next_item_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};  // grows by one per phase; workers wait for it
  alignas(64) std::atomic<uint32_t> gate_{0};  // kOpen while a phase takes workers, plus those that are in it
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace soli
