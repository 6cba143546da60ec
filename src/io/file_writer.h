#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace soli {

/// Writes a file from front to back, of any size, through one small buffer. The bytes go to a new file beside
/// it, "<path>.<process>-<number>.tmp", which takes its name only in commit(): no half file is ever seen, and
/// one that is given up is removed. What is there and is no regular file (a device, a pipe, a link to
/// anything) is never replaced: it is written to directly, as a shell's ">" does. Move-only.
class FileWriter {
 public:
  /// Fails with kNotFound or kIo, naming the path and the reason.
  static Result<FileWriter> create(const std::string& path);
  /// The error that create() would give for a folder that is missing or closed to us, or for a path that is a
  /// folder; nothing is made. For a program that writes only at its end, and would rather fail at its start.
  static Status check(const std::string& path);

  /// Fails with kLimit where the disk of a file to be written has not so many bytes left. Where the system
  /// does not tell, writing will.
  static Status check_room(const std::string& path, int64_t bytes);

  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  /// Removes what was written if it was not committed.
  ~FileWriter();

  /// Fails with kIo, as on a full disk; nothing more can be appended then.
  Status append(std::span<const std::byte> bytes);
  /// Writes over bytes that were appended before. Fails with kIo, always for a pipe.
  Status replace(int64_t offset, std::span<const std::byte> bytes);
  /// Bytes appended so far.
  int64_t size() const { return size_; }
  /// Flushes, closes and gives the file its name, over one that already has it.
  Status commit();

 private:
  FileWriter() = default;
  Status write_all(std::span<const std::byte> bytes);
  tl::unexpected<Error> io_error(const char* what, int error) const;
  Status open_temporary();
  Status open_in_place();
  bool in_place() const { return temporary_.empty(); }

  int descriptor_ = -1;
  int64_t size_ = 0;
  std::string path_;
  std::string temporary_;  // "" where path_ is written to directly
  std::vector<std::byte> buffer_;
};

}  // namespace soli
