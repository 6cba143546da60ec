#include "io/direct_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace soli {
namespace {

constexpr int64_t kAlignment = DirectFile::kAlignment;

int64_t aligned_down(int64_t x) { return x / kAlignment * kAlignment; }
int64_t aligned_up(int64_t x) { return aligned_down(x + kAlignment - 1); }

/// How far into its room the range begins: as far as into its page.
int64_t lead_of(const DirectReader::Request& request) {
  return request.offset - aligned_down(request.offset);
}

}  // namespace

DirectReader::DirectReader(int depth, ReadQueueFactory make_queue) : make_queue_(std::move(make_queue)) {
  SOLI_CHECK(depth >= 1, "depth {}", depth);
  slots_.resize(static_cast<size_t>(depth));
  for (int slot = 0; slot < depth; ++slot) idle_.push_back(slot);
}

DirectReader::~DirectReader() {
  for (; n_queued_ > 0; --n_queued_) queue_->wait();
}

int64_t DirectReader::room_bytes(int64_t bytes) { return aligned_up(bytes) + kAlignment; }

ReadQueue& DirectReader::queue() {
  if (queue_ == nullptr) {
    queue_ = make_queue_(depth());
    if (!expected_.empty()) queue_->expect_reads_into(expected_);
  }
  return *queue_;
}

void DirectReader::submit(const Request& request) {
  SOLI_CHECK(!idle_.empty(), "{} requests are in flight", depth());
  SOLI_CHECK(request.bytes >= 1 && request.offset >= 0);
  SOLI_CHECK(reinterpret_cast<uintptr_t>(request.room) % static_cast<uintptr_t>(kAlignment) == 0);
  const int slot = idle_.back();
  idle_.pop_back();
  slots_[static_cast<size_t>(slot)] = request;
  if (request.file->is_cached(request.offset, request.bytes)) {
    cached_.push_back(slot);
    return;
  }
  const int64_t begin = aligned_down(request.offset);
  const int64_t end = aligned_up(request.offset + request.bytes);
  const int direct = request.file->descriptor();
  queue().start(slot, direct >= 0 ? direct : request.file->file().descriptor(), begin,
                {request.room, static_cast<size_t>(end - begin)});
  ++n_queued_;
}

std::optional<DirectReader::Completion> DirectReader::poll() {
  // Before the copies: a read that has ended makes room for another.
  if (n_queued_ > 0) {
    if (const std::optional<ReadQueue::Completion> ended = queue_->poll()) {
      --n_queued_;
      return complete(ended->slot, ended->result);
    }
  }
  if (cached_.empty()) return std::nullopt;
  const int slot = cached_.front();
  cached_.pop_front();
  return complete(slot, 0);
}

DirectReader::Completion DirectReader::wait() {
  SOLI_CHECK(in_flight() > 0);
  if (std::optional<Completion> ended = poll()) return *std::move(ended);
  const ReadQueue::Completion ended = queue_->wait();
  --n_queued_;
  return complete(ended.slot, ended.result);
}

/// Makes the request of `slot` whole, of whose pages the first `result` bytes are there, and frees the slot.
DirectReader::Completion DirectReader::complete(int slot, int64_t result) {
  const Request& request = slots_[static_cast<size_t>(slot)];
  idle_.push_back(slot);
  // Not the file's fault: this file system wants another alignment, or no direct reads at all.
  if (result == -EINVAL || result == -EOPNOTSUPP) request.file->refuse(static_cast<int>(-result));
  if (result == -EIO) {
    return {request.tag,
            fail(ErrorKind::kIo, "{}: cannot read {} bytes at offset {}: {}", request.file->file().path(),
                 request.bytes, request.offset, std::strerror(EIO))};
  }
  const std::span<std::byte> data(request.room + lead_of(request), static_cast<size_t>(request.bytes));
  const int64_t n_there = std::clamp<int64_t>(result - lead_of(request), 0, request.bytes);
  // A read that ended early goes on through the page cache, which also knows every error by its name.
  if (Status status =
          request.file->file().read(request.offset + n_there, data.subspan(static_cast<size_t>(n_there)));
      !status) {
    return {request.tag, tl::unexpected<Error>(std::move(status).error())};
  }
  return {request.tag, data};
}

}  // namespace soli
