#include "io/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace soli {
namespace {

constexpr int64_t kPageBytes = 4096;

/// Opens `file` once more with O_DIRECT; -1, and errno, where that is not to be had.
int open_direct(const File& file) {
  const int descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
  if (descriptor < 0) return -1;
  struct stat ours = {};
  struct stat theirs = {};
  const bool same = ::fstat(descriptor, &ours) == 0 && ::fstat(file.descriptor(), &theirs) == 0 &&
                    ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
  if (same) return descriptor;
  ::close(descriptor);
  errno = ESTALE;  // another file has taken the path since
  return -1;
}

/// Pages of the range that are cached, by cachestat(2) of Linux 6.5; -1 where the kernel is older or does not
/// tell whoever may not write the file.
int64_t count_cached_pages(int descriptor, int64_t offset, int64_t bytes) {
  constexpr long kCachestat = 451;  // glibc 2.36 does not know it; the number is the same on every machine
  struct {
    uint64_t offset;
    uint64_t bytes;
  } range = {static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes)};
  struct {
    uint64_t cached;
    uint64_t others[4];  // dirty, in writeback, evicted, recently evicted
  } count = {};
  if (::syscall(kCachestat, descriptor, &range, &count, 0U) != 0) return -1;
  return static_cast<int64_t>(count.cached);
}

/// Whether one page of the range is cached: a read that must not wait. Recent kernels begin to read what is
/// missing, so that only one page is asked for, and another one each time: the trace of an earlier probe must
/// not pass for a cached file.
bool probe_page(int descriptor, int64_t offset, int64_t bytes) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const int64_t page = (now >> 10) % ((bytes + kPageBytes - 1) / kPageBytes);
  std::byte seen{};
  const iovec into = {&seen, 1};
  return ::preadv2(descriptor, &into, 1, offset + page * kPageBytes, RWF_NOWAIT) == 1;
}

}  // namespace

DirectFile::DirectFile(const File& file) : file_(&file), descriptor_(open_direct(file)) {
  if (descriptor_ < 0) {
    spdlog::debug("{}: not read past the page cache: {}", file.path(), std::strerror(errno));
  }
}

DirectFile::DirectFile(DirectFile&& other) noexcept
    : file_(other.file_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      refused_(other.refused_.load(std::memory_order_relaxed)) {}

DirectFile::~DirectFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DirectFile::refuse(int error) const {
  if (refused_.exchange(true, std::memory_order_relaxed)) return;
  spdlog::debug("{}: no longer read past the page cache: {}", file_->path(), std::strerror(error));
}

bool DirectFile::is_cached(int64_t offset, int64_t bytes) const {
  if (bytes <= 0) return true;
  const int64_t n_pages = (offset + bytes - 1) / kPageBytes - offset / kPageBytes + 1;
  const int64_t n_cached = count_cached_pages(file_->descriptor(), offset, bytes);
  if (n_cached >= 0) return n_cached >= n_pages;
  return probe_page(file_->descriptor(), offset, bytes);
}

}  // namespace soli
