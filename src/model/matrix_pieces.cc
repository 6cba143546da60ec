#include "model/matrix_pieces.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace soli {

MatrixPieces::MatrixPieces(const TensorRows& rows, const PackedMatrix& matrix)
    : rows_(rows),
      matrix_(matrix),
      strips_per_piece_(std::max<int64_t>(1, kPieceBytes / matrix.strip_bytes())) {}

MatrixPiece MatrixPieces::operator[](int64_t i) const {
  const int64_t row_bytes = matrix_.type->row_bytes(matrix_.cols);
  const int64_t first_strip = i * strips_per_piece_;
  const int64_t n_strips = std::min(strips_per_piece_, matrix_.n_strips() - first_strip);
  const int64_t first_row = first_strip * kernels::kStripRows;
  const int64_t n_rows = std::min(n_strips * kernels::kStripRows, matrix_.rows - first_row);
  return {.first_strip = first_strip,
          .n_strips = n_strips,
          .offset = rows_.offset() + first_row * row_bytes,
          .bytes = n_rows * row_bytes,
          .packed_offset = first_strip * matrix_.strip_bytes(),
          .packed_bytes = n_strips * matrix_.strip_bytes()};
}

Result<const kernels::WeightKernels*> kernels_of(const kernels::KernelTable& kernels,
                                                 const GgufTensor& tensor) {
  if (const kernels::WeightKernels* found = kernels.find(tensor.type)) {
    // GGUF guarantees whole blocks of its own; BF16's pairs are ours.
    if (tensor.dims[0] % found->block_elements == 0) return found;
    return fail(ErrorKind::kUnsupported,
                "tensor {}: rows of {} elements of {} are not supported; an even number is", tensor.name,
                tensor.dims[0], found->name);
  }
  std::vector<std::string_view> supported;
  for (const kernels::WeightKernels& weights : kernels.weights) supported.push_back(weights.name);
  return fail(ErrorKind::kUnsupported, "tensor {}: weight type {} is not supported; these are: {}",
              tensor.name, ggml_type_name(tensor.type), fmt::join(supported, ", "));
}

Result<PackedMatrix> packed_matrix(const kernels::KernelTable& kernels, const TensorRows& rows) {
  SOLI_ASSIGN_OR_RETURN(const kernels::WeightKernels* type, kernels_of(kernels, *rows.tensor));
  return PackedMatrix{.type = type, .data = nullptr, .rows = rows.rows, .cols = rows.cols};
}

void pack_strips(const PackedMatrix& matrix, int64_t n_strips, int64_t bytes, std::byte* rows,
                 std::byte* target) {
  // A zero block has the value 0 in every weight type.
  std::memset(rows + bytes, 0, static_cast<size_t>(n_strips * matrix.strip_bytes() - bytes));
  for (int64_t strip = 0; strip < n_strips; ++strip) {
    const int64_t offset = strip * matrix.strip_bytes();
    matrix.type->pack_strip(rows + offset, matrix.cols, target + offset);
  }
}

}  // namespace soli
