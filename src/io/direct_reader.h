#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "io/direct_file.h"
#include "io/read_queue.h"

namespace soli {

/// Reads ranges of files into memory, several at a time, in whatever order they end. What the page cache
/// holds is copied from there; everything else comes straight from the disk (O_DIRECT) and leaves the page
/// cache as it was. Where there is no O_DIRECT or no io_uring, the page cache or threads take their place.
/// For one thread at a time.
class DirectReader {
 public:
  /// A range, and the room that it is read into.
  struct Request {
    const DirectFile* file = nullptr;
    int64_t offset = 0;         // any
    int64_t bytes = 0;          // any, from 1
    std::byte* room = nullptr;  // [room_bytes(bytes)], aligned to DirectFile::kAlignment; the reader's
                                // until the completion
    uint64_t tag = 0;           // the caller's own
  };
  struct Completion {
    uint64_t tag;
    /// The range's bytes, somewhere in the room. Or kMalformed (the file ends early) or kIo, with path and
    /// offset.
    Result<std::span<std::byte>> data;
  };

  /// `depth`: requests that may be in flight, from 1. Opens nothing before something must come from the disk.
  explicit DirectReader(int depth, ReadQueueFactory make_queue = make_fastest_queue);
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;
  /// Waits for what is in flight.
  ~DirectReader();

  /// Room for a range of so many bytes at any offset: whole pages around it.
  static int64_t room_bytes(int64_t bytes);

  int depth() const { return static_cast<int>(slots_.size()); }
  int in_flight() const { return depth() - static_cast<int>(idle_.size()); }
  /// Whether a request in flight is in the page cache and only needs copying, which wait() does. Who submits
  /// no more meanwhile has the bytes warm in the core's own cache.
  bool holds_cached() const { return !cached_.empty(); }

  /// Tells of memory in which the rooms of many requests lie: a wish (read_queue.h). Before the first
  /// request; the memory outlives the reader.
  void expect_reads_into(std::span<std::byte> memory) { expected_ = memory; }
  /// Begins a read; in_flight() must be less than depth().
  void submit(const Request& request);
  /// A request that has ended, if there is one.
  std::optional<Completion> poll();
  /// The next request that has ended; one must be in flight.
  Completion wait();

 private:
  ReadQueue& queue();
  Completion complete(int slot, int64_t n_read);

  const ReadQueueFactory make_queue_;
  std::span<std::byte> expected_;
  std::unique_ptr<ReadQueue> queue_;  // once needed
  std::vector<Request> slots_;
  std::vector<int> idle_;   // slots without a request
  std::deque<int> cached_;  // slots to copy from the page cache
  int n_queued_ = 0;        // slots that are in queue_
};

}  // namespace soli
