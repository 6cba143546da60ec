#include "model/packed_loader.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "model/weight_loader.h"

namespace soli {
namespace {

/// An expert, and the read that brings its extent.
struct ExtentRead {
  int64_t layer;
  int64_t expert;
  TeamRead read;
};

/// Of all experts in the order of the layers, so that stripes are read side by side.
std::vector<ExtentRead> reads_of(const ModelFile& file, const std::vector<DirectFile>& shards) {
  std::vector<ExtentRead> reads;
  const ModelSpec& spec = file.spec();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    for (int64_t e = 0; e < spec.router.n_experts; ++e) {
      const ExpertExtent& extent = *file.extent(layer, e);
      reads.push_back({layer,
                       e,
                       {.file = &shards[static_cast<size_t>(extent.shard)],
                        .offset = extent.offset,
                        .bytes = extent.bytes,
                        .used_bytes = extent.bytes}});
    }
  }
  return reads;
}

std::vector<DirectFile> open_shards(const GgufFile& gguf) {
  std::vector<DirectFile> shards;
  for (int i = 0; i < gguf.n_shards(); ++i) shards.emplace_back(gguf.shard(i));
  return shards;
}

std::vector<TeamRead> without_experts(const std::vector<ExtentRead>& extents) {
  std::vector<TeamRead> reads;
  for (const ExtentRead& extent : extents) reads.push_back(extent.read);
  return reads;
}

}  // namespace

Result<std::array<PackedMatrix, kExpertMatrices>> matrices_of_extent(const ModelFile& file,
                                                                     const kernels::KernelTable& kernels,
                                                                     int64_t layer, int64_t expert,
                                                                     const std::byte* data) {
  std::array<PackedMatrix, kExpertMatrices> matrices;
  const ExpertExtent& extent = *file.extent(layer, expert);
  for (size_t m = 0; m < matrices.size(); ++m) {
    const TensorRows& rows = file.experts(layer)[m][static_cast<size_t>(expert)];
    SOLI_ASSIGN_OR_RETURN(const kernels::WeightKernels* type, kernels_of(kernels, *rows.tensor));
    matrices[m] = {.type = type,
                   .data = data == nullptr ? nullptr : data + extent.matrix_offsets[m],
                   .rows = rows.rows,
                   .cols = rows.cols};
  }
  return matrices;
}

Status check_extent(const ModelFile& file, int64_t layer, int64_t expert, std::span<const std::byte> bytes) {
  const ExpertExtent& extent = *file.extent(layer, expert);
  const uint64_t found = checksum_of(bytes);
  if (found == extent.checksum) return {};
  return fail(ErrorKind::kMalformed,
              "damaged: its {} bytes at offset {} of {} have the checksum {:016x}, and {} says {:016x}",
              extent.bytes, extent.offset, file.gguf().shard(extent.shard).path(), found, kPackChecksumsKey,
              extent.checksum);
}

Status check_named_extent(const ModelFile& file, const ExtentRead& extent, std::span<const std::byte> bytes) {
  Status status = check_extent(file, extent.layer, extent.expert, bytes);
  if (status) return status;
  return in_context(fmt::format("layer {}, expert {}", extent.layer, extent.expert),
                    std::move(status).error());
}

Result<int64_t> count_extent_bytes(const ModelFile& file, const kernels::KernelTable& kernels) {
  for (const GgufTensor& matrix : file.packed()->matrices())
    SOLI_RETURN_IF_ERROR(kernels_of(kernels, matrix));
  int64_t bytes = 0;
  for (const GgufTensor* tensor : file.packed()->tensors()) bytes += tensor->bytes;
  return bytes;
}

Result<Slab> load_extents(const ModelFile& file, Runtime& runtime, const std::string& name,
                          const LoadProgress& progress) {
  SOLI_ASSIGN_OR_RETURN(const int64_t n_bytes, count_extent_bytes(file, runtime.kernels()));
  SOLI_ASSIGN_OR_RETURN(Slab slab, Slab::allocate(runtime.budget(), name, n_bytes));
  const std::vector<DirectFile> shards = open_shards(file.gguf());
  std::vector<ExtentRead> extents = reads_of(file, shards);
  std::byte* target = slab.data();
  for (ExtentRead& extent : extents) {
    extent.read.target = target;
    target += extent.read.bytes;
  }
  const auto check = [&](size_t i, std::span<std::byte> bytes) {
    return check_named_extent(file, extents[i], bytes);
  };
  SOLI_RETURN_IF_ERROR(read_on_team(runtime.team(), without_experts(extents), check, progress));
  return slab;
}

Result<std::vector<std::string>> find_damage(const ModelFile& file, Runtime& runtime,
                                             const LoadProgress& progress) {
  const std::vector<DirectFile> shards = open_shards(file.gguf());
  const std::vector<ExtentRead> extents = reads_of(file, shards);
  std::mutex mutex;
  std::vector<std::pair<size_t, std::string>> damaged;  // by the number of the extent
  const auto check = [&](size_t i, std::span<std::byte> bytes) -> Status {
    if (Status status = check_named_extent(file, extents[i], bytes); !status) {
      const std::lock_guard lock(mutex);
      damaged.emplace_back(i, std::move(status).error().message);
    }
    return {};
  };
  SOLI_RETURN_IF_ERROR(read_on_team(runtime.team(), without_experts(extents), check, progress));
  std::sort(damaged.begin(), damaged.end());
  std::vector<std::string> messages;
  for (auto& [number, message] : damaged) messages.push_back(std::move(message));
  return messages;
}

}  // namespace soli
