#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "base/log.h"
#include "io/read_queue.h"

namespace soli {
namespace {

// A request counts its bytes in 32 bits; the rest of a longer range is the caller's to ask for again.
constexpr size_t kMostBytes = size_t{1} << 30;

/// Held while a ring is made or unmade: a new one may lie where one of another thread lay. The kernel orders
/// that by itself, but the thread sanitizer does not see what liburing maps.
std::mutex& rings_mutex() {
  static std::mutex mutex;
  return mutex;
}

class UringQueue final : public ReadQueue {
 public:
  /// Returns 0 or a value of errno.
  int open(int depth) {
    const std::scoped_lock lock(rings_mutex());
    const int result = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0);
    is_open_ = result == 0;
    return -result;
  }
  ~UringQueue() override {
    if (!is_open_) return;
    const std::scoped_lock lock(rings_mutex());
    io_uring_queue_exit(&ring_);
  }

  /// Memory that is registered stays pinned, and counts against the limit of locked memory in older kernels.
  void expect_reads_into(std::span<std::byte> memory) override {
    const iovec buffer = {memory.data(), memory.size()};
    if (const int result = io_uring_register_buffers(&ring_, &buffer, 1); result != 0) {
      spdlog::debug("io_uring: no registered buffers: {}", std::strerror(-result));
      return;
    }
    registered_ = memory;
  }

  void start(int slot, int descriptor, int64_t offset, std::span<std::byte> out) override {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    SOLI_CHECK(entry != nullptr, "more reads than the queue is deep");
    const auto n = static_cast<unsigned>(std::min(out.size(), kMostBytes));
    if (is_registered(out)) {
      io_uring_prep_read_fixed(entry, descriptor, out.data(), n, static_cast<uint64_t>(offset), 0);
    } else {
      io_uring_prep_read(entry, descriptor, out.data(), n, static_cast<uint64_t>(offset));
    }
    io_uring_sqe_set_data64(entry, static_cast<uint64_t>(slot));
    // What the kernel has no room for now (EAGAIN, EBUSY) stays in the ring and goes with the next call.
    io_uring_submit(&ring_);
  }

  std::optional<Completion> poll() override {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(&ring_, &entry) != 0) return std::nullopt;
    return take(entry);
  }

  Completion wait() override {
    io_uring_cqe* entry = nullptr;
    int result = 0;
    do {
      result = io_uring_submit_and_wait(&ring_, 1);
    } while (result == -EINTR || result == -EAGAIN || result == -EBUSY);
    SOLI_CHECK(result >= 0, "io_uring: {}", std::strerror(-result));
    SOLI_CHECK(io_uring_peek_cqe(&ring_, &entry) == 0);
    return take(entry);
  }

 private:
  Completion take(io_uring_cqe* entry) {
    const Completion completion = {static_cast<int>(io_uring_cqe_get_data64(entry)), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

  bool is_registered(std::span<std::byte> out) const {
    return out.data() >= registered_.data() &&
           out.data() + out.size() <= registered_.data() + registered_.size();
  }

  io_uring ring_ = {};
  bool is_open_ = false;
  std::span<std::byte> registered_;
};

}  // namespace

std::unique_ptr<ReadQueue> make_uring_queue(int depth) {
  auto queue = std::make_unique<UringQueue>();
  if (const int error = queue->open(depth); error != 0) {
    spdlog::debug("no io_uring: {}; reading with threads", std::strerror(error));
    return nullptr;
  }
  return queue;
}

std::unique_ptr<ReadQueue> make_fastest_queue(int depth) {
  std::unique_ptr<ReadQueue> queue = make_uring_queue(depth);
  return queue != nullptr ? std::move(queue) : make_thread_queue(depth);
}

}  // namespace soli
