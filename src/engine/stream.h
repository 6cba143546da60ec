#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/request.h"
#include "engine/wakeup.h"

namespace soli {

/// The bounded queue from the engine's thread to one client. Thread-safe, one reader and one writer.
/// The last event is kFinished, always.
class Stream {
 public:
  /// A stream that holds so many pauses its row until half of them are read, so that what it lost meanwhile
  /// is worth being computed again. A step may overshoot by what it had already planned.
  static constexpr size_t kCapacityEvents = 64;

  /// `engine` is told when the client leaves, or has made room in a full stream; null: nobody is.
  explicit Stream(RequestId id, std::shared_ptr<Wakeup> engine = nullptr)
      : id_(id), engine_(std::move(engine)) {}

  RequestId id() const { return id_; }

  // Client's side.
  /// Waits for the next event. After kFinished there is none.
  StreamEvent pop();
  std::optional<StreamEvent> try_pop();
  /// The client leaves: the engine frees the row at its next step and ends the stream with kCancelled.
  void close();
  /// From now on `on_ready` is called once whenever events arrive in the empty stream: whoever is called
  /// reads until try_pop() gives nothing. Called on the thread that delivers, under no lock, and at once, on
  /// this thread, if events wait already. It must be short, may call anything but Engine::step(), and must
  /// not throw. An empty function takes it back; a call that has begun may then still be running, so the
  /// function should own what it touches. It is forgotten after kFinished has been delivered.
  void set_on_ready(std::function<void()> on_ready);

  // Engine's side.
  void push(StreamEvent event);
  /// Its client has yet to read.
  bool is_full() const;
  bool is_closed() const;

 private:
  using OnReady = std::shared_ptr<const std::function<void()>>;

  /// Takes the lock with it.
  StreamEvent take_front(std::unique_lock<std::mutex> lock);

  const RequestId id_;
  const std::shared_ptr<Wakeup> engine_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<StreamEvent> events_;
  OnReady on_ready_;  // shared with calls that are under way
  bool full_ = false;
  bool closed_ = false;
  bool finished_ = false;  // kFinished was pushed
};

}  // namespace soli
