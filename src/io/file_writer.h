#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace soli {

/// Writes a file from front to back, of any size, through one small buffer. The bytes go to "<path>.tmp",
/// which takes its name only in commit(): no half file is ever seen, and one that is given up is removed.
/// Move-only.
class FileWriter {
 public:
  /// Fails with kNotFound or kIo, naming the path and the reason.
  static Result<FileWriter> create(const std::string& path);

  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  /// Removes what was written if it was not committed.
  ~FileWriter();

  /// Fails with kIo, as on a full disk; nothing more can be appended then.
  Status append(std::span<const std::byte> bytes);
  /// Bytes appended so far.
  int64_t size() const { return size_; }
  /// Flushes, closes and gives the file its name, over one that already has it.
  Status commit();

 private:
  FileWriter() = default;
  Status write_all(std::span<const std::byte> bytes);
  tl::unexpected<Error> io_error(const char* what, int error) const;
  std::string temporary() const { return path_ + ".tmp"; }

  int descriptor_ = -1;
  int64_t size_ = 0;
  std::string path_;
  std::vector<std::byte> buffer_;
};

}  // namespace soli
