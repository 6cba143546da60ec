#include "model/pack.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "format/gguf_writer.h"
#include "model/pack_target.h"
#include "model/weight_loader.h"

namespace soli {
namespace {

// Experts that are packed together, and tensors that are copied, pass through memory in pieces of about it.
constexpr int64_t kChunkBytes = 64 * kMiB;

/// The three matrices of a layer's experts; they share one type each.
std::vector<GgufTensor> matrices_of(const ModelFile& file, int64_t layer) {
  std::vector<GgufTensor> matrices;
  for (const std::vector<TensorRows>& experts : file.experts(layer)) {
    GgufTensor& matrix = matrices.emplace_back();
    matrix.type = experts[0].tensor->type;
    matrix.dims = {experts[0].cols, experts[0].rows, static_cast<int64_t>(experts.size()), 1};
  }
  return matrices;
}

Status check_layer(const ModelFile& file, int64_t layer, const kernels::KernelTable& kernels) {
  for (const std::vector<TensorRows>& experts : file.experts(layer)) {
    SOLI_RETURN_IF_ERROR(kernels_of(kernels, *experts[0].tensor));
    for (const TensorRows& expert : experts) {
      if (expert.tensor->type == experts[0].tensor->type) continue;
      return fail(
          ErrorKind::kUnsupported,
          "tensor {}: it is {}, and {} is {}; experts of a layer can be packed where they have one type",
          expert.tensor->name, ggml_type_name(expert.tensor->type), experts[0].tensor->name,
          ggml_type_name(experts[0].tensor->type));
    }
  }
  return {};
}

Status check_source(const ModelFile& file, size_t n_folders, const kernels::KernelTable& kernels) {
  const ModelSpec& spec = file.spec();
  if (file.packed() != nullptr) return fail(ErrorKind::kInvalidArgument, "it is packed already");
  if (!spec.is_moe())
    return fail(ErrorKind::kUnsupported, "the model has no experts, so there is nothing to pack");
  if (static_cast<int64_t>(n_folders) > spec.router.n_experts) {
    return fail(ErrorKind::kInvalidArgument, "{} folders for the {} experts of a layer", n_folders,
                spec.router.n_experts);
  }
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) SOLI_RETURN_IF_ERROR(check_layer(file, layer, kernels));
  }
  return {};
}

class Packer {
 public:
  Packer(const ModelFile& file, Runtime& runtime, std::vector<PackTarget>& targets,
         const PackProgress& progress)
      : file_(file),
        spec_(file.spec()),
        runtime_(runtime),
        targets_(targets),
        n_stripes_(std::max<int64_t>(1, static_cast<int64_t>(targets.size()) - 1)),
        progress_(progress) {}

  Status declare() {
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      if (!spec_.is_moe_layer(layer)) continue;
      for (const std::vector<TensorRows>& experts : file_.experts(layer)) {
        for (const TensorRows& expert : experts) packed_.insert(expert.tensor);
      }
    }
    checksums_.resize(static_cast<size_t>(spec_.n_moe_layers() * spec_.router.n_experts));
    set_keys();
    for (const GgufTensor& tensor : file_.gguf().tensors()) {
      if (packed_.contains(&tensor)) continue;
      const std::span<const int64_t> dims(tensor.dims.data(), static_cast<size_t>(tensor.n_dims));
      SOLI_RETURN_IF_ERROR(first().add_tensor(tensor.name, tensor.type, dims));
    }
    SOLI_RETURN_IF_ERROR(declare_extents());
    set_split_keys();
    return {};
  }

  /// Between the begin() of all targets and their commit().
  Status write() {
    for (const PackTarget& target : targets_) {
      for (const GgufTensor& tensor : target.writer.tensors()) bytes_total_ += tensor.bytes;
    }
    for (const GgufTensor& tensor : file_.gguf().tensors()) {
      if (!packed_.contains(&tensor)) SOLI_RETURN_IF_ERROR(copy(tensor));
    }
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      if (spec_.is_moe_layer(layer)) SOLI_RETURN_IF_ERROR(pack_layer(layer));
    }
    return first().replace(std::string(kPackChecksumsKey), GgufValue::of_uint64s(checksums_));
  }

 private:
  GgufWriter& first() { return targets_[0].writer; }
  GgufWriter& writer_of(int64_t stripe) {
    return targets_[targets_.size() == 1 ? 0 : static_cast<size_t>(stripe + 1)].writer;
  }

  void set_keys() {
    for (const GgufMetadata::Entry& entry : file_.gguf().metadata().entries()) {
      if (entry.key.starts_with("split.") || entry.key == "general.alignment") continue;
      first().set(entry.key, entry.value);
    }
    const auto set = [&](std::string_view key, GgufValue value) {
      first().set(std::string(key), std::move(value));
    };
    set(kPackVersionKey, GgufValue::of_uint32(kPackVersion));
    set(kPackLayoutKey, GgufValue::of_string(kPackLayout));
    set(kPackStripesKey, GgufValue::of_uint32(static_cast<uint32_t>(n_stripes_)));
    set(kPackWidthKey, GgufValue::of_uint64(static_cast<uint64_t>(spec_.expert_width)));
    for (size_t m = 0; m < kExpertMatrices; ++m) {
      std::vector<uint32_t> types;
      for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
        if (spec_.is_moe_layer(layer)) types.push_back(file_.experts(layer)[m][0].tensor->type);
      }
      set(kPackTypesKeys[m], GgufValue::of_uint32s(types));
    }
    set(kPackChecksumsKey, GgufValue::of_uint64s(checksums_));  // known once all is packed
  }

  Status declare_extents() {
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      if (!spec_.is_moe_layer(layer)) continue;
      SOLI_ASSIGN_OR_RETURN(const ExtentLayout layout, ExtentLayout::of(matrices_of(file_, layer)));
      for (int64_t stripe = 0; stripe < n_stripes_; ++stripe) {
        const int64_t dims[] = {layout.bytes, experts_of_stripe(spec_.router.n_experts, stripe, n_stripes_)};
        SOLI_RETURN_IF_ERROR(
            writer_of(stripe).add_tensor(packed_tensor_name(layer, stripe, n_stripes_), kGgmlI8, dims));
      }
    }
    return {};
  }

  /// As gguf-split writes them.
  void set_split_keys() {
    size_t n_tensors = 0;
    for (const PackTarget& target : targets_) n_tensors += target.writer.tensors().size();
    for (size_t i = 0; i < targets_.size(); ++i) {
      GgufWriter& writer = targets_[i].writer;
      writer.set_alignment(kExtentAlignment);
      if (targets_.size() == 1) continue;
      writer.set("split.no", GgufValue::of_uint16(static_cast<uint16_t>(i)));
      writer.set("split.count", GgufValue::of_uint16(static_cast<uint16_t>(targets_.size())));
      writer.set("split.tensors.count", GgufValue::of_int32(static_cast<int32_t>(n_tensors)));
    }
  }

  Status append(GgufWriter& writer, std::span<const std::byte> bytes) {
    SOLI_RETURN_IF_ERROR(writer.append(bytes));
    bytes_done_ += static_cast<int64_t>(bytes.size());
    if (!progress_ || progress_(bytes_done_, bytes_total_)) return {};
    return fail(ErrorKind::kCancelled, "stopped after {} of {}", format_bytes(bytes_done_),
                format_bytes(bytes_total_));
  }

  Status copy(const GgufTensor& tensor) {
    const File& shard = file_.gguf().shard(tensor.shard);
    for (int64_t done = 0; done < tensor.bytes;) {
      const int64_t n = std::min(kChunkBytes, tensor.bytes - done);
      chunk_.resize(static_cast<size_t>(n));
      SOLI_RETURN_IF_ERROR(shard.read(tensor.offset + done, chunk_));
      SOLI_RETURN_IF_ERROR(append(first(), chunk_));
      done += n;
    }
    return {};
  }

  Status pack_layer(int64_t layer) {
    SOLI_ASSIGN_OR_RETURN(const ExtentLayout layout, ExtentLayout::of(matrices_of(file_, layer)));
    const int64_t n_together = std::max<int64_t>(1, kChunkBytes / layout.bytes);
    for (int64_t e = 0; e < spec_.router.n_experts; e += n_together) {
      const int64_t n = std::min(n_together, spec_.router.n_experts - e);
      SOLI_RETURN_IF_ERROR(pack_experts(layer, e, n, layout.bytes));
    }
    return {};
  }

  Status pack_experts(int64_t layer, int64_t first_expert, int64_t n, int64_t extent_bytes) {
    WeightLoader loader(file_.gguf(), runtime_, "packing");
    for (int64_t e = first_expert; e < first_expert + n; ++e) {
      for (const std::vector<TensorRows>& matrix : file_.experts(layer))
        SOLI_RETURN_IF_ERROR(loader.add(matrix[static_cast<size_t>(e)]));
      loader.align_to(kExtentAlignment);
    }
    SOLI_CHECK(loader.packed_bytes() == n * extent_bytes, "{} for {} x {}", loader.packed_bytes(), n,
               extent_bytes);
    SOLI_RETURN_IF_ERROR(loader.load({}));
    const Slab slab = loader.take_slab();
    const auto extent = [&](int64_t i) {
      return std::span(slab.data() + i * extent_bytes, static_cast<size_t>(extent_bytes));
    };
    runtime_.team().parallel_for(n, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        checksums_[n_packed_ + static_cast<size_t>(i)] = checksum_of(extent(i));
    });
    n_packed_ += static_cast<size_t>(n);
    for (int64_t i = 0; i < n; ++i) {
      SOLI_RETURN_IF_ERROR(append(writer_of((first_expert + i) % n_stripes_), extent(i)));
    }
    return {};
  }

  const ModelFile& file_;
  const ModelSpec& spec_;
  Runtime& runtime_;
  std::vector<PackTarget>& targets_;
  const int64_t n_stripes_;
  const PackProgress& progress_;
  std::set<const GgufTensor*> packed_;  // tensors of routed experts
  std::vector<uint64_t> checksums_;     // [layer with experts][expert]
  size_t n_packed_ = 0;
  std::vector<std::byte> chunk_;
  int64_t bytes_done_ = 0;
  int64_t bytes_total_ = 0;
};

}  // namespace

Result<PackedFiles> pack_model(const ModelFile& file, const PackOptions& options, Runtime& runtime,
                               const PackProgress& progress) {
  if (Status status = check_source(file, options.folders.size(), runtime.kernels()); !status)
    return in_context(file.gguf().path(), std::move(status).error());
  SOLI_ASSIGN_OR_RETURN(PackTargets targets, PackTargets::plan(options, file.gguf()));
  Packer packer(file, runtime, targets.all(), progress);
  SOLI_RETURN_IF_ERROR(packer.declare());
  SOLI_RETURN_IF_ERROR(targets.begin());
  SOLI_RETURN_IF_ERROR(packer.write());
  SOLI_RETURN_IF_ERROR(file.gguf().check_unchanged());
  SOLI_RETURN_IF_ERROR(targets.commit());
  PackedFiles files;
  for (const PackTarget& target : targets.all()) {
    files.paths.push_back(target.path);
    files.bytes += target.writer.file_bytes();
  }
  return files;
}

}  // namespace soli
