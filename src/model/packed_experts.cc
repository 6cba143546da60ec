#include "model/packed_experts.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/round_up.h"
#include "base/utf8.h"
#include "kernels/kernel_table.h"
#include "model/model_file.h"

namespace soli {
namespace {

constexpr int64_t kMatrixAlignment = 64;  // of vector loads
// No sum of a few sizes below it wraps, and no file comes near it.
constexpr int64_t kMostMatrixBytes = int64_t{1} << 60;

}  // namespace

std::string packed_tensor_name(int64_t layer, int64_t stripe, int64_t n_stripes) {
  const std::string name = fmt::format("blk.{}.ffn_experts.packed", layer);
  return n_stripes == 1 ? name : fmt::format("{}.{}", name, stripe);
}

int64_t experts_of_stripe(int64_t n_experts, int64_t stripe, int64_t n_stripes) {
  return (n_experts - stripe + n_stripes - 1) / n_stripes;
}

Result<ExtentLayout> ExtentLayout::of(std::span<const GgufTensor> matrices) {
  ExtentLayout layout;
  for (size_t m = 0; m < kExpertMatrices; ++m) {
    const GgufTensor& matrix = matrices[m];
    const int64_t padded_rows = round_up(matrix.dims[1], kernels::kStripRows);
    SOLI_ASSIGN_OR_RETURN(const int64_t bytes,
                          ggml_tensor_bytes(matrix.type, {matrix.dims[0], padded_rows, 1, 1}));
    if (bytes > kMostMatrixBytes) {
      return fail(ErrorKind::kLimit, "{} x {} weights of an expert are beyond all bounds", matrix.dims[1],
                  matrix.dims[0]);
    }
    layout.matrix_offsets[m] = layout.bytes;
    layout.bytes = round_up(layout.bytes + bytes, kMatrixAlignment);
  }
  layout.bytes = round_up(layout.bytes, kExtentAlignment);
  return layout;
}

uint64_t checksum_of(std::span<const std::byte> extent) { return XXH3_64bits(extent.data(), extent.size()); }

Result<int64_t> PackedExperts::read_expert_width(const GgufMetadata& metadata) {
  SOLI_ASSIGN_OR_RETURN(const uint64_t width, metadata.get_uint(kPackWidthKey));
  if (width >= 1 && width <= uint64_t{kMaxFfnWidth}) return static_cast<int64_t>(width);
  return fail(ErrorKind::kMalformed, "{}: {} is not allowed; 1 to {}", kPackWidthKey, width, kMaxFfnWidth);
}

const GgufTensor* PackedExperts::matrix(int64_t layer, ExpertMatrix which) const {
  const int64_t moe_layer = moe_layer_[static_cast<size_t>(layer)];
  if (moe_layer < 0) return nullptr;
  return &matrices_[static_cast<size_t>(moe_layer * kExpertMatrices) + static_cast<size_t>(which)];
}

const ExpertExtent* PackedExperts::extent(int64_t layer, int64_t expert) const {
  const int64_t moe_layer = moe_layer_[static_cast<size_t>(layer)];
  return moe_layer < 0 ? nullptr : &extents_[static_cast<size_t>(moe_layer * n_experts_ + expert)];
}

/// Fills a PackedExperts from a file.
class PackedBinder {
 public:
  PackedBinder(const GgufFile& gguf, const Family& family, const ModelSpec& spec)
      : gguf_(gguf), metadata_(gguf.metadata()), family_(family), spec_(spec) {
    int64_t n = 0;
    for (int64_t layer = 0; layer < spec.n_layers; ++layer)
      packed_.moe_layer_.push_back(spec.is_moe_layer(layer) ? n++ : -1);
    packed_.n_experts_ = spec.router.n_experts;
  }

  Result<PackedExperts> bind() {
    SOLI_RETURN_IF_ERROR(read_scalars());
    SOLI_ASSIGN_OR_RETURN(checksums_, metadata_.get_uint64s(kPackChecksumsKey));
    // Held against a number below 2^28; the array was in the file.
    SOLI_RETURN_IF_ERROR(check_length(kPackChecksumsKey, checksums_.size(),
                                      spec_.n_moe_layers() * packed_.n_experts_, "routed experts"));
    for (size_t m = 0; m < kExpertMatrices; ++m) {
      SOLI_ASSIGN_OR_RETURN(types_[m], metadata_.get_ints(kPackTypesKeys[m]));
      SOLI_RETURN_IF_ERROR(
          check_length(kPackTypesKeys[m], types_[m].size(), spec_.n_moe_layers(), "layers with experts"));
    }
    packed_.matrices_.resize(static_cast<size_t>(spec_.n_moe_layers() * kExpertMatrices));
    packed_.extents_.resize(checksums_.size());
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      if (spec_.is_moe_layer(layer)) SOLI_RETURN_IF_ERROR(bind_layer(layer));
    }
    return std::move(packed_);
  }

 private:
  Status read_scalars() {
    SOLI_ASSIGN_OR_RETURN(const uint64_t version, metadata_.get_uint(kPackVersionKey));
    if (version != kPackVersion) {
      return fail(ErrorKind::kUnsupported,
                  "{}: {} is not supported; {} is: pack the model again, or with the soli that runs it",
                  kPackVersionKey, version, kPackVersion);
    }
    SOLI_ASSIGN_OR_RETURN(const std::string_view layout, metadata_.get_string(kPackLayoutKey));
    if (layout != kPackLayout) {
      return fail(ErrorKind::kUnsupported, "{}: '{}' is not supported; '{}' is", kPackLayoutKey,
                  printable(layout), kPackLayout);
    }
    SOLI_ASSIGN_OR_RETURN(const uint64_t n_stripes, metadata_.get_uint_or(kPackStripesKey, 1));
    const auto most = static_cast<uint64_t>(packed_.n_experts_);
    if (n_stripes < 1 || n_stripes > most) {
      return fail(ErrorKind::kMalformed, "{}: {} is not allowed; 1 to {}, the experts of a layer",
                  kPackStripesKey, n_stripes, most);
    }
    packed_.n_stripes_ = static_cast<int64_t>(n_stripes);
    return {};
  }

  static Status check_length(std::string_view key, size_t found, int64_t wanted, std::string_view what) {
    if (static_cast<int64_t>(found) == wanted) return {};
    return fail(ErrorKind::kMalformed, "{}: it has {} values, and the model has {} {}", key, found, wanted,
                what);
  }

  Status bind_layer(int64_t layer) {
    for (const ExpertSlot& slot : family_.experts) SOLI_RETURN_IF_ERROR(make_matrix(slot, layer));
    const int64_t moe_layer = packed_.moe_layer_[static_cast<size_t>(layer)];
    const auto* const matrices = &packed_.matrices_[static_cast<size_t>(moe_layer * kExpertMatrices)];
    Result<ExtentLayout> layout = ExtentLayout::of({matrices, kExpertMatrices});
    if (!layout) {
      return in_context(fmt::format("{}: layer {}", kPackWidthKey, layer), std::move(layout).error());
    }
    for (int64_t stripe = 0; stripe < packed_.n_stripes_; ++stripe) {
      SOLI_ASSIGN_OR_RETURN(const GgufTensor* const tensor, find_stripe(layer, stripe, *layout));
      for (int64_t i = 0; i < tensor->dims[1]; ++i) {
        const auto at = static_cast<size_t>(moe_layer * packed_.n_experts_ + stripe + i * packed_.n_stripes_);
        packed_.extents_[at] = {.shard = tensor->shard,
                                .offset = tensor->offset + i * layout->bytes,
                                .bytes = layout->bytes,
                                .checksum = checksums_[at],
                                .matrix_offsets = layout->matrix_offsets};
      }
    }
    return {};
  }

  /// The matrix of all experts of a layer, as the plain file would have it.
  Status make_matrix(const ExpertSlot& slot, int64_t layer) {
    const auto m = static_cast<size_t>(slot.which);
    const int64_t moe_layer = packed_.moe_layer_[static_cast<size_t>(layer)];
    const int64_t type = types_[m][static_cast<size_t>(moe_layer)];
    GgufTensor& matrix = packed_.matrices_[static_cast<size_t>(moe_layer * kExpertMatrices) + m];
    matrix.name = tensor_name(slot.merged_pattern, layer);
    matrix.dims = {size_of(spec_, slot.cols), size_of(spec_, slot.rows), packed_.n_experts_, 1};
    matrix.n_dims = 3;
    matrix.shard = -1;
    matrix.offset = -1;
    const auto in_key = [&](Error error) {
      return in_context(fmt::format("{}: layer {}", kPackTypesKeys[m], layer), std::move(error));
    };
    if (type < 0 || type > INT32_MAX) {
      return in_key({ErrorKind::kMalformed, fmt::format("type {} does not exist", type)});
    }
    matrix.type = static_cast<uint32_t>(type);
    Result<int64_t> bytes = ggml_tensor_bytes(matrix.type, matrix.dims);
    if (!bytes) return in_key(std::move(bytes).error());
    matrix.bytes = *bytes;
    return {};
  }

  Result<const GgufTensor*> find_stripe(int64_t layer, int64_t stripe, const ExtentLayout& layout) {
    const std::string name = packed_tensor_name(layer, stripe, packed_.n_stripes_);
    const GgufTensor* const tensor = gguf_.find_tensor(name);
    if (tensor == nullptr) {
      return fail(ErrorKind::kMalformed, "tensor {} is missing, and {} says that it is there", name,
                  packed_.n_stripes_ == 1 ? kPackVersionKey : kPackStripesKey);
    }
    if (tensor->type != kGgmlI8) {
      return fail(ErrorKind::kMalformed, "tensor {}: its type is {}, and packed experts are I8", name,
                  ggml_type_name(tensor->type));
    }
    const int64_t n = experts_of_stripe(packed_.n_experts_, stripe, packed_.n_stripes_);
    if (tensor->dims != std::array<int64_t, 4>{layout.bytes, n, 1, 1}) {
      return fail(
          ErrorKind::kMalformed,
          "tensor {}: its shape is [{}, {}, {}, {}], and {} experts of {} bytes each ask for [{}, {}]", name,
          tensor->dims[0], tensor->dims[1], tensor->dims[2], tensor->dims[3], n, layout.bytes, layout.bytes,
          n);
    }
    if (tensor->offset % kExtentAlignment != 0) {
      return fail(ErrorKind::kMalformed, "tensor {}: its offset is {}, and must be a multiple of {}", name,
                  tensor->offset, kExtentAlignment);
    }
    packed_.tensors_.push_back(tensor);
    return tensor;
  }

  const GgufFile& gguf_;
  const GgufMetadata& metadata_;
  const Family& family_;
  const ModelSpec& spec_;
  std::vector<uint64_t> checksums_;
  std::array<std::vector<int64_t>, kExpertMatrices> types_;
  PackedExperts packed_;
};

Result<PackedExperts> PackedExperts::bind(const GgufFile& gguf, const Family& family, const ModelSpec& spec) {
  return PackedBinder(gguf, family, spec).bind();
}

}  // namespace soli
