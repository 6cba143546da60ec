#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "io/read_queue.h"

namespace soli {
namespace {

class ThreadQueue final : public ReadQueue {
 public:
  explicit ThreadQueue(int depth) {
    for (int i = 0; i < depth; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(int slot, int descriptor, int64_t offset, std::span<std::byte> out) override {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back({slot, descriptor, offset, out});
    }
    work_.notify_one();
  }

  std::optional<Completion> poll() override {
    const std::lock_guard lock(mutex_);
    if (ended_.empty()) return std::nullopt;
    return take();
  }

  Completion wait() override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return !ended_.empty(); });
    return take();
  }

 private:
  struct Read {
    int slot;
    int descriptor;
    int64_t offset;
    std::span<std::byte> out;
  };

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stop_ || !asked_.empty(); });
      if (stop_) return;
      const Read read = asked_.front();
      asked_.pop_front();
      lock.unlock();
      ssize_t result = 0;
      do {
        result = ::pread(read.descriptor, read.out.data(), read.out.size(), read.offset);
      } while (result < 0 && errno == EINTR);
      const int64_t code = result < 0 ? -errno : result;
      lock.lock();
      ended_.push_back({read.slot, code});
      done_.notify_one();
    }
  }

  Completion take() {
    const Completion completion = ended_.front();
    ended_.pop_front();
    return completion;
  }

  std::mutex mutex_;
  std::condition_variable work_;  // something is asked for, or the end
  std::condition_variable done_;  // something has ended
  std::deque<Read> asked_;
  std::deque<Completion> ended_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReadQueue> make_thread_queue(int depth) { return std::make_unique<ThreadQueue>(depth); }

}  // namespace soli
