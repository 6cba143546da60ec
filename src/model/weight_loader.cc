#include "model/weight_loader.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/check.h"
#include "base/units.h"

namespace soli {
namespace {

constexpr int64_t kAlignmentBytes = 64;
// A piece stays in a core's own cache between reading and packing.
constexpr int64_t kPieceBytes = 1 * kMiB;

int64_t aligned(int64_t bytes, int64_t grain) { return (bytes + grain - 1) / grain * grain; }

}  // namespace

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

Result<size_t> WeightLoader::add(const TensorRows& rows) {
  SOLI_CHECK(rows.tensor->shard >= 0, "{} has no place in its file", rows.tensor->name);
  SOLI_ASSIGN_OR_RETURN(const kernels::WeightKernels* type, kernels_of(runtime_.kernels(), *rows.tensor));
  const PackedMatrix matrix = {.type = type, .data = nullptr, .rows = rows.rows, .cols = rows.cols};
  planned_.push_back({rows, packed_bytes_, matrix});
  packed_bytes_ += aligned(matrix.packed_bytes(), kAlignmentBytes);
  return planned_.size() - 1;
}

void WeightLoader::align_to(int64_t bytes) { packed_bytes_ = aligned(packed_bytes_, bytes); }

Status WeightLoader::load(const LoadProgress& progress) {
  if (planned_.empty()) return {};
  SOLI_ASSIGN_OR_RETURN(slab_, Slab::allocate(runtime_.budget(), name_, packed_bytes_));
  for (Planned& planned : planned_) planned.matrix.data = slab_.data() + planned.slab_offset;

  std::vector<DirectFile> files;
  for (int i = 0; i < gguf_.n_shards(); ++i) files.emplace_back(gguf_.shard(i));
  const std::vector<Piece> pieces = cut_into_pieces(files);
  std::vector<TeamRead> reads;
  for (const Piece& piece : pieces) reads.push_back(piece.read);
  const auto pack_piece = [&](size_t i, std::span<std::byte> rows) {
    pack(pieces[i], rows.data());
    return Status();
  };
  return read_on_team(runtime_.team(), reads, pack_piece, progress);
}

/// In the order of the files, for the disk's sake.
std::vector<WeightLoader::Piece> WeightLoader::cut_into_pieces(std::span<const DirectFile> files) const {
  std::vector<Piece> pieces;
  for (size_t m = 0; m < planned_.size(); ++m) {
    const auto& [source, slab_offset, matrix] = planned_[m];
    const int64_t row_bytes = matrix.type->row_bytes(matrix.cols);
    const int64_t most_strips = std::max<int64_t>(1, kPieceBytes / matrix.strip_bytes());
    for (int64_t first = 0; first < matrix.n_strips(); first += most_strips) {
      const int64_t n_strips = std::min(most_strips, matrix.n_strips() - first);
      const int64_t first_row = first * kernels::kStripRows;
      const int64_t n_rows = std::min(n_strips * kernels::kStripRows, matrix.rows - first_row);
      pieces.push_back({.matrix = m,
                        .first_strip = first,
                        .n_strips = n_strips,
                        .read = {.file = &files[static_cast<size_t>(source.tensor->shard)],
                                 .offset = source.offset() + first_row * row_bytes,
                                 .bytes = n_rows * row_bytes,
                                 .used_bytes = n_strips * matrix.strip_bytes()}});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.read.file, a.read.offset) < std::tie(b.read.file, b.read.offset);
  });
  return pieces;
}

/// Packs the rows of a piece, at `rows`, into the slab; there is room for used_bytes.
void WeightLoader::pack(const Piece& piece, std::byte* rows) {
  const Planned& planned = planned_[piece.matrix];
  const PackedMatrix& matrix = planned.matrix;
  // A zero block has the value 0 in every weight type.
  std::memset(rows + piece.read.bytes, 0, static_cast<size_t>(piece.read.used_bytes - piece.read.bytes));
  std::byte* const target = slab_.data() + planned.slab_offset + piece.first_strip * matrix.strip_bytes();
  for (int64_t strip = 0; strip < piece.n_strips; ++strip) {
    const int64_t offset = strip * matrix.strip_bytes();
    matrix.type->pack_strip(rows + offset, matrix.cols, target + offset);
  }
}

Result<std::vector<float>> read_floats(const GgufFile& gguf, const kernels::KernelTable& kernels,
                                       const TensorRows& rows) {
  SOLI_ASSIGN_OR_RETURN(const kernels::WeightKernels* type, kernels_of(kernels, *rows.tensor));
  std::vector<std::byte> raw(static_cast<size_t>(rows.bytes()));
  SOLI_RETURN_IF_ERROR(gguf.shard(rows.tensor->shard).read(rows.offset(), raw));
  std::vector<float> values(static_cast<size_t>(rows.elements()));
  for (int64_t r = 0; r < rows.rows; ++r) {
    type->dequantize_row(raw.data() + r * rows.tensor->row_bytes(), rows.cols, values.data() + r * rows.cols);
  }
  return values;
}

}  // namespace soli
