#include "experts/expert_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/units.h"
#include "io/direct_reader.h"
#include "model/packed_loader.h"

namespace soli {
namespace {

constexpr int64_t kMatrixAlignment = 64;
constexpr int64_t kPageBytes = DirectFile::kAlignment;  // so that an expert can be read straight into place

int64_t round_up(int64_t bytes, int64_t grain) { return (bytes + grain - 1) / grain * grain; }

bool same_shape(const PackedMatrix& a, const PackedMatrix& b) {
  return a.type == b.type && a.rows == b.rows && a.cols == b.cols;
}

}  // namespace

Result<ExpertSource> ExpertSource::create(const ModelFile& file, const kernels::KernelTable& kernels) {
  const ModelSpec& spec = file.spec();
  ExpertSource source(file);
  source.n_experts_ = spec.router.n_experts;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    source.moe_layer_.push_back(spec.is_moe_layer(layer) ? source.n_layers() : -1);
    if (!spec.is_moe_layer(layer)) continue;
    source.layers_.push_back(layer);
    SOLI_RETURN_IF_ERROR(source.add_layer(layer, kernels));
  }
  for (int shard = 0; shard < file.gguf().n_shards(); ++shard) {
    source.files_.emplace_back(file.gguf().shard(shard));
    SOLI_ASSIGN_OR_RETURN(const FileState state, source.state_of(file.gguf().shard(shard)));
    source.states_.push_back(state);
  }
  return source;
}

Status ExpertSource::add_layer(int64_t layer, const kernels::KernelTable& kernels) {
  const BoundExperts& bound = file_->experts(layer);
  for (size_t e = 0; e < static_cast<size_t>(n_experts_); ++e) {
    std::array<PackedMatrix, kExpertMatrices> matrices;
    for (size_t m = 0; m < kExpertMatrices; ++m) {
      SOLI_ASSIGN_OR_RETURN(matrices[m], packed_matrix(kernels, bound[m][e]));
      if (file_->packed() != nullptr) continue;
      const MatrixPieces pieces(bound[m][e], matrices[m]);
      most_room_bytes_ = std::max(most_room_bytes_, DirectReader::room_bytes(pieces[0].packed_bytes));
    }
    const size_t form = find_form(matrices);
    if (const ExpertExtent* extent = file_->extent(layer, static_cast<int64_t>(e))) {
      SOLI_CHECK(extent->bytes == forms_[form].bytes && extent->matrix_offsets == forms_[form].offsets,
                 "an extent lies in the file as an expert does in memory");
    }
    if (form > std::numeric_limits<uint16_t>::max())
      return fail(ErrorKind::kUnsupported, "more than 65,536 different forms of experts");
    ++forms_[form].n_experts;
    form_of_.push_back(static_cast<uint16_t>(form));
  }
  return {};
}

size_t ExpertSource::find_form(const std::array<PackedMatrix, kExpertMatrices>& matrices) {
  // The form of the last expert first: nearly always the same.
  for (size_t i = forms_.size(); i-- > 0;) {
    if (std::equal(matrices.begin(), matrices.end(), forms_[i].matrices.begin(), same_shape)) return i;
  }
  ExpertForm form = {.matrices = matrices, .offsets = {}};
  for (size_t m = 0; m < matrices.size(); ++m) {
    form.offsets[m] = form.bytes;
    form.bytes += round_up(matrices[m].packed_bytes(), kMatrixAlignment);
  }
  form.bytes = round_up(form.bytes, kPageBytes);
  forms_.push_back(form);
  return forms_.size() - 1;
}

int64_t ExpertSource::total_bytes() const {
  int64_t n = 0;
  for (const ExpertForm& form : forms_) n += form.n_experts * form.bytes;
  return n;
}

/// One read, unless the expert is so large that several keep the disk busier.
std::vector<ExpertRead> ExpertSource::reads_of_extent(const ExpertExtent& extent) const {
  constexpr int64_t kMostBytes = 8 * kMiB;
  std::vector<ExpertRead> reads;
  for (int64_t done = 0; done < extent.bytes; done += kMostBytes) {
    reads.push_back({.file = &files_[static_cast<size_t>(extent.shard)],
                     .offset = extent.offset + done,
                     .bytes = std::min(kMostBytes, extent.bytes - done),
                     .matrix = {},
                     .target = done});
  }
  return reads;
}

std::vector<ExpertRead> ExpertSource::reads_of(ExpertNumber expert) const {
  if (const ExpertExtent* extent = file_->extent(layer_of(expert), expert % n_experts_))
    return reads_of_extent(*extent);
  const ExpertForm& form = forms_[form_of(expert)];
  const BoundExperts& bound = file_->experts(layer_of(expert));
  std::vector<ExpertRead> reads;
  for (size_t m = 0; m < kExpertMatrices; ++m) {
    const TensorRows& rows = bound[m][static_cast<size_t>(expert % n_experts_)];
    const MatrixPieces pieces(rows, form.matrices[m]);
    for (int64_t i = 0; i < pieces.size(); ++i) {
      const MatrixPiece piece = pieces[i];
      reads.push_back({.file = &files_[static_cast<size_t>(rows.tensor->shard)],
                       .offset = piece.offset,
                       .bytes = piece.bytes,
                       .matrix = form.matrices[m],
                       .n_strips = piece.n_strips,
                       .target = form.offsets[m] + piece.packed_offset});
    }
  }
  return reads;
}

Status ExpertSource::check(ExpertNumber expert, const std::byte* memory) const {
  if (file_->packed() == nullptr) return {};
  return check_extent(*file_, layer_of(expert), expert % n_experts_,
                      {memory, static_cast<size_t>(bytes_of(expert))});
}

ExpertWeights ExpertSource::weights_of(ExpertNumber expert, const std::byte* memory) const {
  const ExpertForm& form = forms_[form_of(expert)];
  ExpertWeights weights;
  weights.activation = file_->spec().activation;
  const std::array<PackedMatrix*, kExpertMatrices> targets = {&weights.gate, &weights.up, &weights.down};
  for (size_t m = 0; m < targets.size(); ++m) {
    *targets[m] = form.matrices[m];
    targets[m]->data = memory + form.offsets[m];
  }
  return weights;
}

Result<ExpertSource::FileState> ExpertSource::state_of(const File& file) const {
  struct stat status = {};
  if (::fstat(file.descriptor(), &status) != 0)
    return fail(ErrorKind::kIo, "{}: cannot look at it: {}", file.path(), std::strerror(errno));
  return FileState{status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Status ExpertSource::check_unchanged() const {
  for (size_t shard = 0; shard < files_.size(); ++shard) {
    SOLI_ASSIGN_OR_RETURN(const FileState state, state_of(files_[shard].file()));
    if (state == states_[shard]) continue;
    return fail(ErrorKind::kMalformed,
                "{}: the file was written to while soli reads experts from it; start again with a model that "
                "stays as it is",
                files_[shard].file().path());
  }
  return {};
}

}  // namespace soli
