#include "io/team_read.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "io/direct_reader.h"

namespace soli {
namespace {

// Of all threads together: enough to keep a fast disk busy, little beside the weights.
constexpr int64_t kInFlightBytes = 16 * kMiB;
constexpr int64_t kMostInFlight = 16;  // of one thread

using UseRead = FunctionRef<Status(size_t read, std::span<std::byte> data)>;

/// What the workers of one read_on_team() share.
struct Job {
  std::span<const TeamRead> reads;
  UseRead use;
  int64_t room_bytes = 0;       // for any of them that needs a room; 0: none does
  int depth = 0;                // reads in flight per worker
  std::atomic<size_t> next{0};  // read that nobody has taken yet
  std::atomic<int64_t> bytes_done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first_error;  // under the mutex

  Job(std::span<const TeamRead> all, UseRead use_read, int n_workers) : reads(all), use(use_read) {
    int64_t most_bytes = 1;
    for (const TeamRead& read : reads) {
      most_bytes = std::max(most_bytes, DirectReader::room_bytes(read.used_bytes));
      if (read.target == nullptr)
        room_bytes = std::max(room_bytes, DirectReader::room_bytes(read.used_bytes));
    }
    depth =
        static_cast<int>(std::clamp<int64_t>(kInFlightBytes / (most_bytes * n_workers), 1, kMostInFlight));
  }
  int64_t total_bytes() const {
    int64_t total = 0;
    for (const TeamRead& read : reads) total += read.used_bytes;
    return total;
  }
  /// The next read, or reads.size(): none is left, or all is in vain.
  size_t take() {
    if (failed.load(std::memory_order_relaxed)) return reads.size();
    return std::min(next.fetch_add(1, std::memory_order_relaxed), reads.size());
  }
  void fail_with(Error error) {
    const std::lock_guard lock(mutex);
    if (first_error) first_error = tl::unexpected<Error>(std::move(error));
    failed.store(true, std::memory_order_relaxed);
  }
};

/// One thread's part: keeps reads in flight and hands on what arrives.
class Worker {
 public:
  explicit Worker(Job& job) : job_(job), reader_(job.depth) {}

  /// Works until no read is left; `after_read` is called after each.
  Status run(FunctionRef<void()> after_read) {
    const auto all_bytes = static_cast<size_t>(job_.depth * job_.room_bytes);
    if (all_bytes > 0) {
      rooms_.reset(static_cast<std::byte*>(
          std::aligned_alloc(static_cast<size_t>(DirectFile::kAlignment), all_bytes)));
      if (rooms_ == nullptr) return fail(ErrorKind::kLimit, "no memory for {} to read into", all_bytes);
    }
    for (int i = 0; i < job_.depth; ++i) idle_.push_back(i);
    in_room_.resize(idle_.size());
    while (submit_some()) {
      DirectReader::Completion completion = reader_.wait();
      if (!completion.data) return tl::unexpected<Error>(std::move(completion.data).error());
      const auto room = static_cast<size_t>(completion.tag);
      SOLI_RETURN_IF_ERROR(job_.use(in_room_[room], *completion.data));
      job_.bytes_done.fetch_add(job_.reads[in_room_[room]].used_bytes, std::memory_order_relaxed);
      idle_.push_back(static_cast<int>(room));
      after_read();
    }
    return {};
  }

 private:
  /// False when nothing is in flight and nothing is left.
  bool submit_some() {
    while (!idle_.empty() && !reader_.holds_cached()) {
      const size_t taken = job_.take();
      if (taken == job_.reads.size()) break;
      const int room = idle_.back();
      idle_.pop_back();
      in_room_[static_cast<size_t>(room)] = taken;
      const TeamRead& read = job_.reads[taken];
      SOLI_CHECK(read.target == nullptr ||
                 (read.offset % DirectFile::kAlignment == 0 && read.bytes % DirectFile::kAlignment == 0));
      reader_.submit({.file = read.file,
                      .offset = read.offset,
                      .bytes = read.bytes,
                      .room = read.target != nullptr ? read.target : rooms_.get() + room * job_.room_bytes,
                      .tag = static_cast<uint64_t>(room)});
    }
    return reader_.in_flight() > 0;
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  Job& job_;
  std::unique_ptr<std::byte, Free> rooms_;  // [depth][room_bytes]
  std::vector<int> idle_;                   // rooms
  std::vector<size_t> in_room_;             // reads
  DirectReader reader_;                     // last: it reads into the rooms until it is gone
};

}  // namespace

Status read_on_team(ThreadTeam& team, std::span<const TeamRead> reads, UseRead use,
                    const LoadProgress& progress) {
  const int n_workers = team.size();
  Job job(reads, use, n_workers);
  const int64_t total_bytes = job.total_bytes();
  const auto report = [&] {
    if (progress) progress(job.bytes_done.load(std::memory_order_relaxed), total_bytes);
  };
  team.parallel_for(n_workers, 1, [&](int64_t, int64_t, int member) {
    const auto after_read = [&] {
      if (member == 0) report();
    };
    if (Status status = Worker(job).run(after_read); !status) job.fail_with(std::move(status).error());
  });
  // The last read need not have been this thread's.
  if (job.first_error) report();
  return job.first_error;
}

}  // namespace soli
