#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/slab.h"
#include "model/model_file.h"
#include "ops/runtime.h"

namespace soli {

/// Told now and then while weights are read, on the thread that loads.
using LoadProgress = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

/// Reads matrices of a file into one slab, in the x16 layout: add() all of them, then load().
/// Reading and packing go strip by strip on the runtime's team, in place; there is no second copy.
class WeightLoader {
 public:
  /// `name` is what the memory is charged as.
  WeightLoader(const GgufFile& gguf, Runtime& runtime, std::string name)
      : gguf_(gguf), runtime_(runtime), name_(std::move(name)) {}

  /// Plans a matrix and returns its number. Fails with kUnsupported for a weight type without kernels.
  Result<size_t> add(const TensorRows& rows);
  /// Bytes that the planned matrices take once packed.
  int64_t packed_bytes() const { return packed_bytes_; }

  /// Allocates the slab and fills it; fails with kLimit (budget) or kIo. Call once.
  Status load(const LoadProgress& progress);

  /// After load(): matrix `number`. It borrows from the slab that take_slab() gave away.
  const PackedMatrix& matrix(size_t number) const { return planned_[number].matrix; }
  Slab take_slab() { return std::move(slab_); }

 private:
  struct Planned {
    TensorRows source;
    int64_t slab_offset;
    PackedMatrix matrix;
  };
  struct Chunk {  // strips [first_strip, end_strip) of a matrix
    size_t matrix;
    int64_t first_strip;
    int64_t end_strip;
  };

  std::vector<Chunk> cut_into_chunks() const;
  Status load_chunk(const Chunk& chunk, std::byte* scratch);

  const GgufFile& gguf_;
  Runtime& runtime_;
  std::string name_;
  std::vector<Planned> planned_;
  int64_t packed_bytes_ = 0;
  Slab slab_;
};

/// The values of a vector tensor of any supported type, as floats.
Result<std::vector<float>> read_floats(const GgufFile& gguf, const kernels::KernelTable& kernels,
                                       const TensorRows& rows);

}  // namespace soli
