#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file_writer.h"

namespace soli {

/// Writes NumPy arrays into one .npz: a ZIP archive without compression (PKWARE's APPNOTE 6.3, its ZIP64
/// records where sizes need them) of .npy files (NumPy's NEP 1, version 1.0). From front to back, of any
/// size.
class NpzWriter {
 public:
  explicit NpzWriter(FileWriter& writer) : writer_(writer) {}

  /// Begins an array; `type` is NumPy's, such as "<i4". Its elements follow, in C order, and end_array().
  Status begin_array(const std::string& name, const char* type, const std::vector<int64_t>& shape);
  Status append(std::span<const std::byte> elements);
  Status end_array();
  /// The directory of the archive.
  Status finish();

 private:
  struct Member {
    std::string name;
    uint32_t crc = 0;
    uint64_t bytes = 0;
    uint64_t offset = 0;
  };
  Status write(const std::string& bytes);

  FileWriter& writer_;
  std::vector<Member> members_;
};

}  // namespace soli
