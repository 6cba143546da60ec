#pragma once

#include <atomic>
#include <cstdint>

#include "io/file.h"

namespace soli {

/// A File seen past the page cache: a second descriptor with O_DIRECT, where the file system has that.
/// Thread-safe. Borrows the File. Move-only while nobody reads.
class DirectFile {
 public:
  /// Offset, length and memory of a direct read are multiples of it. Enough for every common file system;
  /// where it is not, the system refuses (EINVAL) and reads go through the page cache.
  static constexpr int64_t kAlignment = 4096;

  /// Never fails: what cannot be read directly is read through the page cache, which a debug log tells.
  explicit DirectFile(const File& file);
  DirectFile(DirectFile&& other) noexcept;
  DirectFile& operator=(DirectFile&&) = delete;
  ~DirectFile();

  const File& file() const { return *file_; }
  /// The descriptor for direct reads, or -1: read through the page cache.
  int descriptor() const { return refused_.load(std::memory_order_relaxed) ? -1 : descriptor_; }
  /// Told that a direct read failed with `error`, a value of errno, for no fault of the file's: no more of
  /// them.
  void refuse(int error) const;

  /// Whether all of the range is in the page cache, as far as the system tells: a guess that may be outdated.
  bool is_cached(int64_t offset, int64_t bytes) const;

 private:
  const File* file_;
  int descriptor_ = -1;
  mutable std::atomic<bool> refused_{false};
};

}  // namespace soli
