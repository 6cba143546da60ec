#include "model/weight_loader.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/round_up.h"
#include "base/units.h"

namespace soli {
namespace {

constexpr int64_t kAlignmentBytes = 64;

}  // namespace

Result<size_t> WeightLoader::add(const TensorRows& rows) {
  SOLI_CHECK(rows.tensor->shard >= 0, "{} has no place in its file", rows.tensor->name);
  SOLI_ASSIGN_OR_RETURN(const PackedMatrix matrix, packed_matrix(runtime_.kernels(), rows));
  planned_.push_back({rows, packed_bytes_, matrix});
  packed_bytes_ += round_up(matrix.packed_bytes(), kAlignmentBytes);
  return planned_.size() - 1;
}

void WeightLoader::align_to(int64_t bytes) { packed_bytes_ = round_up(packed_bytes_, bytes); }

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
  SOLI_RETURN_IF_ERROR(read_on_team(runtime_.team(), reads, pack_piece, progress));
  return gguf_.check_unchanged();
}

/// In the order of the files, for the disk's sake.
std::vector<WeightLoader::Piece> WeightLoader::cut_into_pieces(std::span<const DirectFile> files) const {
  std::vector<Piece> pieces;
  for (size_t m = 0; m < planned_.size(); ++m) {
    const auto& [source, slab_offset, matrix] = planned_[m];
    const MatrixPieces cut(source, matrix);
    for (int64_t i = 0; i < cut.size(); ++i) {
      const MatrixPiece piece = cut[i];
      pieces.push_back({.matrix = m,
                        .strips = piece,
                        .read = {.file = &files[static_cast<size_t>(source.tensor->shard)],
                                 .offset = piece.offset,
                                 .bytes = piece.bytes,
                                 .used_bytes = piece.packed_bytes}});
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
  pack_strips(planned.matrix, piece.strips.n_strips, piece.strips.bytes, rows,
              slab_.data() + planned.slab_offset + piece.strips.packed_offset);
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
