#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace soli {

/// How other threads tell the one that steps an engine that there is something to do. A signal is kept until
/// it is taken, so none is lost between a look for work and the wait. Thread-safe.
class Wakeup {
 public:
  static constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(1);

  void signal();
  /// Waits for a signal, up to `timeout` (at most kLongestWait), and takes it. False: there was none.
  bool wait_for(std::chrono::milliseconds timeout);
  /// Takes the signals so far without waiting.
  void clear();

 private:
  std::mutex mutex_;
  std::condition_variable signalled_;
  bool pending_ = false;
};

}  // namespace soli
