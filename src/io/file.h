#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace soli {

/// A file opened for reading at offsets. Thread-safe: many threads may read at once. Move-only.
class File {
 public:
  /// Fails with kNotFound or kIo, naming the path and the reason; a directory, pipe or device is
  /// refused, since only regular files have a size and can be read at offsets.
  static Result<File> open(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// Fills all of `out` from `offset`. Nothing is read ahead: ask in large pieces. Fails with kMalformed
  /// ("ends early") past the end of the file, or kIo; both name the offset.
  Status read(int64_t offset, std::span<std::byte> out) const;

  /// Fails with kMalformed where the file has been written to since it was opened, by its size and the time
  /// of its last change: what was read may then be of two files.
  Status check_unchanged() const;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  /// For system calls that File does not make itself. Stays the File's.
  int descriptor() const { return descriptor_; }

 private:
  File() = default;

  int descriptor_ = -1;
  int64_t size_ = 0;
  timespec changed_ = {};  // when it was opened
  std::string path_;
};

/// The whole of a file of at most `max_bytes`; else kLimit.
Result<std::string> read_file(const std::string& path, int64_t max_bytes);
/// Writes `content` to `path` through a temporary file and a rename, so that no half file is ever seen.
Status write_file(const std::string& path, std::span<const std::byte> content);

}  // namespace soli
