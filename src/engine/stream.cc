#include "engine/stream.h"

#include <utility>

namespace soli {

StreamEvent Stream::pop() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !events_.empty(); });
  StreamEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<StreamEvent> Stream::try_pop() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return {};
  StreamEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Stream::push(StreamEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  arrived_.notify_one();
}

bool Stream::is_full() const {
  const std::lock_guard lock(mutex_);
  return events_.size() >= kCapacityEvents;
}

bool Stream::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace soli
