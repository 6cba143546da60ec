#include "engine/stream.h"

#include <utility>

namespace soli {

StreamEvent Stream::pop() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !events_.empty(); });
  return take_front(std::move(lock));
}

std::optional<StreamEvent> Stream::try_pop() {
  std::unique_lock lock(mutex_);
  if (events_.empty()) return {};
  return take_front(std::move(lock));
}

StreamEvent Stream::take_front(std::unique_lock<std::mutex> lock) {
  StreamEvent event = std::move(events_.front());
  events_.pop_front();
  const bool made_room = full_ && events_.size() <= kCapacityEvents / 2;
  if (made_room) full_ = false;
  lock.unlock();
  if (made_room && engine_ != nullptr) engine_->signal();
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
    full_ = full_ || events_.size() >= kCapacityEvents;
  }
  arrived_.notify_one();
  if (call != nullptr) (*call)();
}

bool Stream::is_full() const {
  const std::lock_guard lock(mutex_);
  return full_;
}

bool Stream::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace soli
