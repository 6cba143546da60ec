#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace soli {

/// A file without a name, for what memory should not hold: gone when it is closed, however the process ends.
/// Lies in $TMPDIR, else /tmp. Move-only; one thread.
class ScratchFile {
 public:
  /// Fails with kIo, naming the folder.
  static Result<ScratchFile> create();

  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) noexcept;
  ~ScratchFile();

  /// Fails with kIo, as on a full disk.
  Status write(int64_t offset, std::span<const std::byte> bytes);
  /// What was written there. Fails with kIo.
  Status read(int64_t offset, std::span<std::byte> bytes) const;

  const std::string& folder() const { return folder_; }

 private:
  ScratchFile() = default;

  int descriptor_ = -1;
  std::string folder_;
};

}  // namespace soli
