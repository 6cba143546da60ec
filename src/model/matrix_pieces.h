#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "model/model_file.h"
#include "ops/matmul.h"

namespace soli {

/// Consecutive strips of a matrix, as they lie in the file and as they lie in memory.
struct MatrixPiece {
  int64_t first_strip = 0;
  int64_t n_strips = 0;
  int64_t offset = 0;         // in the file
  int64_t bytes = 0;          // in the file: of the rows that there are
  int64_t packed_offset = 0;  // in the packed matrix
  int64_t packed_bytes = 0;   // rows of padding included
};

/// A matrix of the file cut into pieces of about kPieceBytes: one read each, which stays in a core's own
/// cache until it is packed.
class MatrixPieces {
 public:
  static constexpr int64_t kPieceBytes = int64_t{1} << 20;

  /// `matrix` has the shape and type of `rows`; its data is not looked at.
  MatrixPieces(const TensorRows& rows, const PackedMatrix& matrix);

  int64_t size() const { return (matrix_.n_strips() + strips_per_piece_ - 1) / strips_per_piece_; }
  MatrixPiece operator[](int64_t i) const;

 private:
  TensorRows rows_;
  PackedMatrix matrix_;
  int64_t strips_per_piece_;
};

/// The kernels of a tensor's weight type. Fails with kUnsupported, naming the tensor, where there are none.
Result<const kernels::WeightKernels*> kernels_of(const kernels::KernelTable& kernels,
                                                 const GgufTensor& tensor);

/// The matrix that these rows become in memory; `data` is not set. Fails with kUnsupported for a weight type
/// without kernels.
Result<PackedMatrix> packed_matrix(const kernels::KernelTable& kernels, const TensorRows& rows);

/// Fills `n_strips` packed strips at `target` from their rows, of which the first `bytes` are at `rows`;
/// there is room for all strips there, and the rest is made zero.
void pack_strips(const PackedMatrix& matrix, int64_t n_strips, int64_t bytes, std::byte* rows,
                 std::byte* target);

}  // namespace soli
