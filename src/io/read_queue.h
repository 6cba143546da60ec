#pragma once

// Reads of whole ranges that go on in the background, in the two ways that Linux offers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace soli {

/// Up to `depth` reads in flight, each known by its slot in [0, depth). For one thread at a time. Whoever
/// drops a queue has waited for all that was started.
class ReadQueue {
 public:
  struct Completion {
    int slot;
    int64_t result;  // bytes read, fewer than asked for at the end of the file or for no reason; or -errno
  };

  ReadQueue() = default;
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;
  virtual ~ReadQueue() = default;

  /// Tells of memory that many reads will go to, so that the system need not look it up each time. A wish:
  /// without it, reads only cost more. Before the first read; the memory outlives the queue.
  virtual void expect_reads_into(std::span<std::byte> /*memory*/) {}
  /// Begins to read. `slot` must be idle; `out` is the queue's until its completion.
  virtual void start(int slot, int descriptor, int64_t offset, std::span<std::byte> out) = 0;
  /// A read that has ended, if there is one.
  virtual std::optional<Completion> poll() = 0;
  /// Waits for a read to end; one must be in flight.
  virtual Completion wait() = 0;
};

/// Over io_uring. Null, and a debug log, where the kernel does not have it or does not let us (ENOSYS,
/// EPERM).
std::unique_ptr<ReadQueue> make_uring_queue(int depth);
/// Over `depth` threads that call pread.
std::unique_ptr<ReadQueue> make_thread_queue(int depth);
/// The first of these that is to be had.
std::unique_ptr<ReadQueue> make_fastest_queue(int depth);

/// Makes a queue of a depth; tests make such that fail.
using ReadQueueFactory = std::function<std::unique_ptr<ReadQueue>(int depth)>;

}  // namespace soli
