#pragma once

// GGUF model files (versions 2 and 3, little endian): metadata and the directory of tensors. Tensor data is
// never read here. Format: docs/gguf.md of the ggml project.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/ggml_types.h"
#include "format/gguf_metadata.h"
#include "io/file.h"

namespace soli {

// Limits on what a file may ask for, well above every published model. They bound memory and time on hostile
// files.
inline constexpr uint64_t kGgufMaxKeys = 65'536;
inline constexpr uint64_t kGgufMaxTensors = 131'072;
inline constexpr uint64_t kGgufMaxHeaderBytes = uint64_t{40}
                                                << 20;  // keys, values and directory as they are kept
inline constexpr uint64_t kGgufMaxKeyBytes = 255;
inline constexpr uint64_t kGgufMaxTensorNameBytes = 255;
inline constexpr uint64_t kGgufMaxAlignment = uint64_t{1} << 21;
inline constexpr uint64_t kGgufMaxShards = 512;
inline constexpr uint32_t kGgufMaxDims = 4;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr uint64_t kGgufDefaultAlignment = 32;

/// One tensor of a file. Valid by construction: known type, whole blocks, inside its shard, no overlap.
struct GgufTensor {
  std::string name;
  uint32_t type = kGgmlF32;  // a GgmlTypeId, never a retired one
  std::array<int64_t, kGgufMaxDims> dims{1, 1, 1,
                                         1};  // ggml order: dims[0] is contiguous; missing ones are 1
  int n_dims = 1;
  int shard = 0;       // which file of the set
  int64_t offset = 0;  // from the start of that file
  int64_t bytes = 0;

  int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  /// Bytes of one row, that is of dims[0] elements.
  int64_t row_bytes() const;
};

/// How the name of shard `index`, from 0, of a set ends: "-00001-of-00003.gguf".
std::string gguf_shard_suffix(uint64_t index, uint64_t count);

/// An opened GGUF file, or a whole split set. Immutable after open, so any thread may read it. Move-only.
class GgufFile {
 public:
  /// Opens a file; any shard of a split set ("name-00001-of-00003.gguf") opens the set, whose shards must lie
  /// beside it. Fails with kNotFound (naming a missing shard), kMalformed, kUnsupported, kLimit or kIo.
  static Result<GgufFile> open(const std::string& path);

  /// Keys of the first shard, which carries all that concern the model.
  const GgufMetadata& metadata() const { return metadata_; }
  /// In the order of the files.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// The tensor of that name, or nullptr.
  const GgufTensor* find_tensor(std::string_view name) const;

  int n_shards() const { return static_cast<int>(shards_.size()); }
  const File& shard(int i) const { return shards_[static_cast<size_t>(i)]; }
  const std::string& path() const { return shards_.front().path(); }
  /// As File::check_unchanged(), of all shards.
  Status check_unchanged() const;
  /// Whether a path leads to one of its files.
  bool has_file(const std::string& path) const;
  uint32_t version() const { return version_; }
  /// Size of all shards together, and of the tensors in them.
  int64_t file_bytes() const { return file_bytes_; }
  int64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  GgufFile() = default;
  void append_shard(File file, std::vector<GgufTensor> tensors);
  Status index_tensors();

  uint32_t version_ = 0;
  GgufMetadata metadata_;
  std::vector<File> shards_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> by_name_;  // indices of tensors_, sorted by name
  int64_t file_bytes_ = 0;
  int64_t tensor_bytes_ = 0;
};

}  // namespace soli
