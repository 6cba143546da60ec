#include "engine/stream.h"

#include <utility>

namespace soli {

StreamEvent Stream::pop() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !events_.empty(); });
  const bool made_room = events_.size() == kCapacityEvents;
  StreamEvent event = take_front();
  lock.unlock();
  if (made_room && engine_ != nullptr) engine_->signal();
  return event;
}

std::optional<StreamEvent> Stream::try_pop() {
  std::unique_lock lock(mutex_);
  if (events_.empty()) return {};
  const bool made_room = events_.size() == kCapacityEvents;
  StreamEvent event = take_front();
  lock.unlock();
  if (made_room && engine_ != nullptr) engine_->signal();
  return event;
}

StreamEvent Stream::take_front() {
  StreamEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Stream::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  if (engine_ != nullptr) engine_->signal();
}

void Stream::set_on_ready(std::function<void()> on_ready) {
  OnReady next;
  if (on_ready) next = std::make_shared<const std::function<void()>>(std::move(on_ready));
  OnReady call;
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) call = next;
    if (finished_) next = nullptr;
    on_ready_.swap(next);
  }
  // The one before is destroyed here, after the lock: it may own whatever holds this stream.
  if (call != nullptr) (*call)();
}

void Stream::push(StreamEvent event) {
  OnReady call;
  OnReady last;
  {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) call = on_ready_;
    if (event.kind == StreamEvent::Kind::kFinished) {
      finished_ = true;
      last.swap(on_ready_);
    }
    events_.push_back(std::move(event));
  }
  arrived_.notify_one();
  if (call != nullptr) (*call)();
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
