#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace soli::serve {

/// Threads for work that would keep a thread of the transport from its other connections: bodies to requests,
/// long answers to text. Thread-safe.
class WorkerPool {
 public:
  WorkerPool(size_t n_threads, size_t max_queued);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool() { stop(); }

  /// False where max_queued tasks wait already, or after stop(): the task is dropped.
  bool submit(std::function<void()> task);
  /// Drops what waits, and returns when what runs has ended.
  void stop();

 private:
  void work();

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace soli::serve
