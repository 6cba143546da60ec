#pragma once

// Writes GGUF files (version 3, little endian), streaming: tensors may be far larger than memory.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "io/file_writer.h"

namespace soli {

/// First all metadata and tensor declarations, then begin(), then the bytes of each tensor in the order of
/// declaration, then finish(). The file appears under its name only then; a writer that is dropped, or that
/// failed, leaves nothing behind. Calls out of this order are our own mistakes and are checked. Not
/// thread-safe.
class GgufWriter {
 public:
  /// Sets a key; one that is already there gets the new value. general.alignment is set_alignment()'s.
  void set(const std::string& key, GgufValue value);
  /// Sets all keys of another file but general.alignment.
  void set_all(const GgufMetadata& metadata);
  /// Offsets of tensors are multiples of it, a power of two from 8 to kGgufMaxAlignment. Without this call:
  /// of kGgufDefaultAlignment.
  void set_alignment(int64_t alignment);
  /// Declares a tensor of 1 to 4 dims, dims[0] contiguous. Fails, naming the tensor, if the type is unknown
  /// or retired or the rows are no whole blocks, if the name is taken or too long, or if a dim is below 1.
  Status add_tensor(const std::string& name, uint32_t type, std::span<const int64_t> dims);

  /// Creates the file and writes everything in front of the data. `path` gets its bytes in finish().
  Status begin(const std::string& path);
  /// After begin(): another value of the same size for a key, such as one that only the data tells.
  Status replace(const std::string& key, const GgufValue& value);
  /// The next bytes of the tensor in turn; never more than it still lacks.
  Status append(std::span<const std::byte> bytes);
  /// Fails with kIo, as on a full disk. All tensors must be complete.
  Status finish();

  /// In the order of declaration; offsets are absolute once begin() was called.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// Size of the file, data included; known once begin() was called.
  int64_t file_bytes() const { return file_bytes_; }

 private:
  std::string header();
  int64_t aligned(int64_t offset) const { return (offset + alignment_ - 1) / alignment_ * alignment_; }
  Status pad();

  int64_t alignment_ = kGgufDefaultAlignment;
  std::vector<GgufMetadata::Entry> entries_;
  std::vector<int64_t> value_offsets_;  // in the file, of each entry's value and its type
  std::vector<GgufTensor> tensors_;
  std::optional<FileWriter> file_;
  int64_t file_bytes_ = 0;
  size_t current_ = 0;         // tensor whose bytes come next
  int64_t written_bytes_ = 0;  // of that tensor
};

}  // namespace soli
