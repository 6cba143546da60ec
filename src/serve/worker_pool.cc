#include "serve/worker_pool.h"

#include <utility>

namespace soli::serve {

WorkerPool::WorkerPool(size_t n_threads, size_t max_queued) : max_queued_(max_queued) {
  for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
}

bool WorkerPool::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || tasks_.size() >= max_queued_) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void WorkerPool::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || !tasks_.empty(); });
      if (stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace soli::serve
