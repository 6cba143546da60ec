#include "experts/expert_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "base/check.h"
#include "base/round_up.h"
#include "base/units.h"
#include "io/direct_reader.h"
#include "model/packed_loader.h"

namespace soli {
namespace {

constexpr int64_t kMatrixAlignment = 64;
constexpr int64_t kPageBytes = DirectFile::kAlignment;  // so that an expert can be read straight into place

bool same_shape(const PackedMatrix& a, const PackedMatrix& b) {
  return a.type == b.type && a.rows == b.rows && a.cols == b.cols;
}

int64_t bytes_of_forms(std::span<const ExpertForm> forms) {
  return std::accumulate(forms.begin(), forms.end(), int64_t{0}, [](int64_t sum, const ExpertForm& form) {
    return sum + form.n_experts * form.bytes;
  });
}

/// Both have the same experts, as far as sizes tell.
Status check_same_experts(const ModelFile& file, const ModelFile& twins) {
  const ModelSpec& a = file.spec();
  const ModelSpec& b = twins.spec();
  const auto compare = [&](const char* what, auto of_model, auto of_twin) -> Status {
    if (of_model == of_twin) return {};
    return fail(ErrorKind::kInvalidArgument, "{}: is not a twin of {}: its {} is {}, the model's {}",
                twins.gguf().path(), file.gguf().path(), what, of_twin, of_model);
  };
  SOLI_RETURN_IF_ERROR(compare("architecture", a.architecture, b.architecture));
  SOLI_RETURN_IF_ERROR(compare("number of layers", a.n_layers, b.n_layers));
  SOLI_RETURN_IF_ERROR(compare("number of experts", a.router.n_experts, b.router.n_experts));
  SOLI_RETURN_IF_ERROR(compare("hidden size", a.hidden_size, b.hidden_size));
  SOLI_RETURN_IF_ERROR(compare("expert width", a.expert_width, b.expert_width));
  for (int64_t layer = 0; layer < a.n_layers; ++layer) {
    SOLI_RETURN_IF_ERROR(compare("kind of a layer (1: it has experts)", a.is_moe_layer(layer) ? 1 : 0,
                                 b.is_moe_layer(layer) ? 1 : 0));
  }
  return {};
}

}  // namespace

Result<ExpertSource> ExpertSource::create(const ModelFile& file, const kernels::KernelTable& kernels,
                                          const ModelFile* twins) {
  const ModelSpec& spec = file.spec();
  ExpertSource source;
  source.n_experts_ = spec.router.n_experts;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    source.moe_layer_.push_back(spec.is_moe_layer(layer) ? source.n_layers() : -1);
    if (spec.is_moe_layer(layer)) source.layers_.push_back(layer);
  }
  SOLI_RETURN_IF_ERROR(source.add_model(file, kernels));
  source.first_twin_form_ = source.forms_.size();
  if (twins == nullptr) return source;
  SOLI_RETURN_IF_ERROR(check_same_experts(file, *twins));
  SOLI_RETURN_IF_ERROR(source.add_model(*twins, kernels));
  if (source.twin_bytes() < source.total_bytes()) return source;
  return fail(ErrorKind::kInvalidArgument, "{}: its experts take {}, and the model's own {}: no smaller",
              twins->gguf().path(), format_bytes(source.twin_bytes()), format_bytes(source.total_bytes()));
}

Status ExpertSource::add_model(const ModelFile& file, const kernels::KernelTable& kernels) {
  model_files_.push_back(&file);
  for (const int64_t layer : layers_) SOLI_RETURN_IF_ERROR(add_layer(file, layer, kernels));
  for (int shard = 0; shard < file.gguf().n_shards(); ++shard) {
    files_.emplace_back(file.gguf().shard(shard));
  }
  return {};
}

Status ExpertSource::add_layer(const ModelFile& file, int64_t layer, const kernels::KernelTable& kernels) {
  const BoundExperts& bound = file.experts(layer);
  for (size_t e = 0; e < static_cast<size_t>(n_experts_); ++e) {
    std::array<PackedMatrix, kExpertMatrices> matrices;
    for (size_t m = 0; m < kExpertMatrices; ++m) {
      SOLI_ASSIGN_OR_RETURN(matrices[m], packed_matrix(kernels, bound[m][e]));
      if (file.packed() != nullptr) continue;
      const MatrixPieces pieces(bound[m][e], matrices[m]);
      most_room_bytes_ = std::max(most_room_bytes_, DirectReader::room_bytes(pieces[0].packed_bytes));
    }
    const size_t form = find_form(matrices);
    if (const ExpertExtent* extent = file.extent(layer, static_cast<int64_t>(e))) {
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
  for (size_t i = forms_.size(); i-- > first_twin_form_;) {
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
  return bytes_of_forms(std::span(forms_).first(first_twin_form_));
}

int64_t ExpertSource::twin_bytes() const {
  return bytes_of_forms(std::span(forms_).subspan(first_twin_form_));
}

/// One read, unless the expert is so large that several keep the disk busier.
std::vector<ExpertRead> ExpertSource::reads_of_extent(size_t first_file, const ExpertExtent& extent) const {
  constexpr int64_t kMostBytes = 8 * kMiB;
  std::vector<ExpertRead> reads;
  for (int64_t done = 0; done < extent.bytes; done += kMostBytes) {
    reads.push_back({.file = &files_[first_file + static_cast<size_t>(extent.shard)],
                     .offset = extent.offset + done,
                     .bytes = std::min(kMostBytes, extent.bytes - done),
                     .matrix = {},
                     .target = done});
  }
  return reads;
}

std::vector<ExpertRead> ExpertSource::reads_of(ExpertNumber number) const {
  const ModelFile& file = model_file_of(number);
  const auto first_file = is_twin(number) ? static_cast<size_t>(model_files_[0]->gguf().n_shards()) : 0;
  if (const ExpertExtent* extent = file.extent(layer_of(number), id_of(number)))
    return reads_of_extent(first_file, *extent);
  const ExpertForm& form = forms_[form_of(number)];
  const BoundExperts& bound = file.experts(layer_of(number));
  std::vector<ExpertRead> reads;
  for (size_t m = 0; m < kExpertMatrices; ++m) {
    const TensorRows& rows = bound[m][static_cast<size_t>(id_of(number))];
    const MatrixPieces pieces(rows, form.matrices[m]);
    for (int64_t i = 0; i < pieces.size(); ++i) {
      const MatrixPiece piece = pieces[i];
      reads.push_back({.file = &files_[first_file + static_cast<size_t>(rows.tensor->shard)],
                       .offset = piece.offset,
                       .bytes = piece.bytes,
                       .matrix = form.matrices[m],
                       .n_strips = piece.n_strips,
                       .target = form.offsets[m] + piece.packed_offset});
    }
  }
  return reads;
}

Status ExpertSource::check(ExpertNumber number, const std::byte* memory) const {
  const ModelFile& file = model_file_of(number);
  if (file.packed() == nullptr) return {};
  return check_extent(file, layer_of(number), id_of(number), {memory, static_cast<size_t>(bytes_of(number))});
}

ExpertWeights ExpertSource::weights_of(ExpertNumber number, const std::byte* memory) const {
  const ExpertForm& form = forms_[form_of(number)];
  ExpertWeights weights;
  weights.activation = model_files_[0]->spec().activation;
  const std::array<PackedMatrix*, kExpertMatrices> targets = {&weights.gate, &weights.up, &weights.down};
  for (size_t m = 0; m < targets.size(); ++m) {
    *targets[m] = form.matrices[m];
    targets[m]->data = memory + form.offsets[m];
  }
  return weights;
}

Status ExpertSource::check_unchanged() const {
  for (const DirectFile& file : files_) SOLI_RETURN_IF_ERROR(file.file().check_unchanged());
  return {};
}

}  // namespace soli
