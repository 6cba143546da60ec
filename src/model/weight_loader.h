#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/slab.h"
#include "io/team_read.h"
#include "model/matrix_pieces.h"
#include "model/model_file.h"
#include "ops/runtime.h"

namespace soli {

/// Reads matrices of a file into one slab, in the x16 layout: add() all of them, then load().
/// Each thread of the runtime's team keeps some reads in flight and packs what has arrived, piece by piece,
/// from a small buffer into the slab; there is no second copy.
class WeightLoader {
 public:
  /// `name` is what the memory is charged as.
  WeightLoader(const GgufFile& gguf, Runtime& runtime, std::string name)
      : gguf_(gguf), runtime_(runtime), name_(std::move(name)) {}

  /// Plans a matrix and returns its number. Fails with kUnsupported for a weight type without kernels.
  Result<size_t> add(const TensorRows& rows);
  /// The next matrix begins at a multiple of `bytes`, itself one of 64; zeros fill the gap.
  void align_to(int64_t bytes);
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
  struct Piece {
    size_t matrix;
    MatrixPiece strips;
    TeamRead read;  // of the rows that there are; used_bytes are those of the strips, padding included
  };

  std::vector<Piece> cut_into_pieces(std::span<const DirectFile> files) const;
  void pack(const Piece& piece, std::byte* rows);

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
