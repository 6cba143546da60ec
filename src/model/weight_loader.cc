#include "model/weight_loader.h"

#include <algorithm>
#include <mutex>

#include "base/units.h"

namespace soli {
namespace {

constexpr int64_t kAlignmentBytes = 64;
constexpr int64_t kChunkBytes = 4 * kMiB;

int64_t aligned(int64_t bytes) { return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes; }

Result<const kernels::WeightKernels*> kernels_of(const kernels::KernelTable& kernels,
                                                 const GgufTensor& tensor) {
  if (const kernels::WeightKernels* found = kernels.find(tensor.type)) return found;
  std::vector<std::string_view> supported;
  for (const kernels::WeightKernels& weights : kernels.weights) supported.push_back(weights.name);
  return fail(ErrorKind::kUnsupported, "tensor {}: weight type {} is not supported; these are: {}",
              tensor.name, ggml_type_name(tensor.type), fmt::join(supported, ", "));
}

}  // namespace

Result<size_t> WeightLoader::add(const TensorRows& rows) {
  SOLI_ASSIGN_OR_RETURN(const kernels::WeightKernels* type, kernels_of(runtime_.kernels(), *rows.tensor));
  const PackedMatrix matrix = {.type = type, .data = nullptr, .rows = rows.rows, .cols = rows.cols};
  planned_.push_back({rows, packed_bytes_, matrix});
  packed_bytes_ += aligned(matrix.packed_bytes());
  return planned_.size() - 1;
}

Status WeightLoader::load(const LoadProgress& progress) {
  if (planned_.empty()) return {};
  SOLI_ASSIGN_OR_RETURN(slab_, Slab::allocate(runtime_.budget(), name_, packed_bytes_));
  for (Planned& planned : planned_) planned.matrix.data = slab_.data() + planned.slab_offset;

  const std::vector<Chunk> chunks = cut_into_chunks();
  int64_t scratch_bytes = 0;
  int64_t total_bytes = 0;  // without the gaps between matrices
  for (const Planned& planned : planned_) {
    scratch_bytes = std::max(scratch_bytes, planned.matrix.strip_bytes());
    total_bytes += planned.matrix.packed_bytes();
  }
  std::vector<std::vector<std::byte>> scratch(static_cast<size_t>(runtime_.team().size()));

  std::mutex mutex;
  Status first_error;
  std::atomic<bool> failed{false};
  std::atomic<int64_t> bytes_done{0};
  runtime_.team().parallel_for(
      static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t, int member) {
        if (failed.load(std::memory_order_relaxed)) return;
        auto& room = scratch[static_cast<size_t>(member)];
        room.resize(static_cast<size_t>(scratch_bytes));
        const Chunk& chunk = chunks[static_cast<size_t>(begin)];
        if (Status status = load_chunk(chunk, room.data()); !status) {
          const std::lock_guard lock(mutex);
          if (first_error) first_error = std::move(status);
          failed.store(true, std::memory_order_relaxed);
        }
        const int64_t strips = chunk.end_strip - chunk.first_strip;
        bytes_done.fetch_add(strips * planned_[chunk.matrix].matrix.strip_bytes(), std::memory_order_relaxed);
        if (progress && member == 0) progress(bytes_done.load(std::memory_order_relaxed), total_bytes);
      });
  // The last chunk need not have been this thread's.
  if (first_error && progress) progress(total_bytes, total_bytes);
  return first_error;
}

std::vector<WeightLoader::Chunk> WeightLoader::cut_into_chunks() const {
  std::vector<Chunk> chunks;
  for (size_t m = 0; m < planned_.size(); ++m) {
    const PackedMatrix& matrix = planned_[m].matrix;
    const int64_t strips = std::max<int64_t>(1, kChunkBytes / matrix.strip_bytes());
    for (int64_t first = 0; first < matrix.n_strips(); first += strips) {
      chunks.push_back({m, first, std::min(first + strips, matrix.n_strips())});
    }
  }
  return chunks;
}

Status WeightLoader::load_chunk(const Chunk& chunk, std::byte* scratch) {
  const Planned& planned = planned_[chunk.matrix];
  const PackedMatrix& matrix = planned.matrix;
  const File& file = gguf_.shard(planned.source.tensor->shard);
  const int64_t row_bytes = matrix.type->row_bytes(matrix.cols);
  const int64_t first_row = chunk.first_strip * kernels::kStripRows;
  const int64_t end_row = std::min(chunk.end_strip * kernels::kStripRows, matrix.rows);
  std::byte* const target = slab_.data() + planned.slab_offset + chunk.first_strip * matrix.strip_bytes();
  // The rows beyond the last stay zero, as the slab came: a zero block has the value 0 in every weight type.
  const int64_t bytes = (end_row - first_row) * row_bytes;
  SOLI_RETURN_IF_ERROR(
      file.read(planned.source.offset() + first_row * row_bytes, {target, static_cast<size_t>(bytes)}));
  for (int64_t strip = chunk.first_strip; strip < chunk.end_strip; ++strip) {
    matrix.type->pack_strip(target + (strip - chunk.first_strip) * matrix.strip_bytes(), matrix.cols,
                            scratch);
  }
  return {};
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
