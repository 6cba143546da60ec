#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "engine/request.h"

namespace soli {

/// The bounded queue from the engine's thread to one client. Thread-safe, one reader and one writer.
/// The last event is kFinished, always.
class Stream {
 public:
  /// A stream that holds more pauses its row; a step may overshoot by what it had already planned.
  static constexpr size_t kCapacityEvents = 64;

  explicit Stream(RequestId id) : id_(id) {}

  RequestId id() const { return id_; }

  // Client's side.
  /// Waits for the next event. After kFinished there is none.
  StreamEvent pop();
  std::optional<StreamEvent> try_pop();
  /// The client leaves: the engine frees the row at its next step and ends the stream with kCancelled.
  void close();

  // Engine's side.
  void push(StreamEvent event);
  bool is_full() const;
  bool is_closed() const;

 private:
  const RequestId id_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<StreamEvent> events_;
  bool closed_ = false;
};

}  // namespace soli
