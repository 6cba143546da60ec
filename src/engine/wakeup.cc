#include "engine/wakeup.h"

#include <algorithm>
#include <utility>

namespace soli {

void Wakeup::signal() {
  {
    const std::lock_guard lock(mutex_);
    pending_ = true;
  }
  signalled_.notify_one();
}

bool Wakeup::wait_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  signalled_.wait_for(lock, std::min(timeout, kLongestWait), [&] { return pending_; });
  return std::exchange(pending_, false);
}

void Wakeup::clear() {
  const std::lock_guard lock(mutex_);
  pending_ = false;
}

}  // namespace soli
