#include "model/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <tuple>

#include "base/function_ref.h"
#include "base/units.h"
#include "io/direct_reader.h"

namespace soli {
namespace {

constexpr int64_t kAlignmentBytes = 64;
// A piece stays in a core's own cache between reading and packing.
constexpr int64_t kPieceBytes = 1 * kMiB;
// Of all threads together: enough to keep a fast disk busy, little beside the weights.
constexpr int64_t kInFlightBytes = 16 * kMiB;
constexpr int64_t kMostInFlight = 16;  // of one thread

int64_t aligned(int64_t bytes) { return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes; }

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

}  // namespace

Result<size_t> WeightLoader::add(const TensorRows& rows) {
  SOLI_ASSIGN_OR_RETURN(const kernels::WeightKernels* type, kernels_of(runtime_.kernels(), *rows.tensor));
  const PackedMatrix matrix = {.type = type, .data = nullptr, .rows = rows.rows, .cols = rows.cols};
  planned_.push_back({rows, packed_bytes_, matrix});
  packed_bytes_ += aligned(matrix.packed_bytes());
  return planned_.size() - 1;
}

/// What the workers of one load() share.
struct WeightLoader::Job {
  std::vector<Piece> pieces;
  int64_t room_bytes = 0;       // for any of them
  int depth = 0;                // reads in flight per worker
  std::atomic<size_t> next{0};  // piece that nobody has taken yet
  std::atomic<int64_t> bytes_done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first_error;  // under the mutex

  /// The next piece, or null: none is left, or all is in vain.
  const Piece* take() {
    if (failed.load(std::memory_order_relaxed)) return nullptr;
    const size_t taken = next.fetch_add(1, std::memory_order_relaxed);
    return taken < pieces.size() ? &pieces[taken] : nullptr;
  }
  void fail_with(Error error) {
    const std::lock_guard lock(mutex);
    if (first_error) first_error = tl::unexpected<Error>(std::move(error));
    failed.store(true, std::memory_order_relaxed);
  }
};

/// One thread's part of a load(): keeps reads in flight, each with a room of its own, and packs what arrives.
class WeightLoader::Worker {
 public:
  Worker(WeightLoader& loader, Job& job) : loader_(loader), job_(job), reader_(job.depth) {}

  /// Works until no piece is left; `after_piece` is called after each.
  Status run(FunctionRef<void()> after_piece) {
    const auto all_bytes = static_cast<size_t>(job_.depth * job_.room_bytes);
    rooms_.reset(
        static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(DirectFile::kAlignment), all_bytes)));
    if (rooms_ == nullptr) return fail(ErrorKind::kLimit, "no memory for {} to read into", all_bytes);
    for (int i = 0; i < job_.depth; ++i) idle_.push_back(i);
    in_room_.resize(idle_.size());
    while (submit_some()) {
      DirectReader::Completion completion = reader_.wait();
      if (!completion.data) return tl::unexpected<Error>(std::move(completion.data).error());
      const auto room = static_cast<size_t>(completion.tag);
      loader_.pack(*in_room_[room], completion.data->data());
      job_.bytes_done.fetch_add(in_room_[room]->packed_bytes, std::memory_order_relaxed);
      idle_.push_back(static_cast<int>(room));
      after_piece();
    }
    return {};
  }

 private:
  /// False when nothing is in flight and nothing is left.
  bool submit_some() {
    while (!idle_.empty() && !reader_.holds_cached()) {
      const Piece* const piece = job_.take();
      if (piece == nullptr) break;
      const int room = idle_.back();
      idle_.pop_back();
      in_room_[static_cast<size_t>(room)] = piece;
      reader_.submit({.file = piece->file,
                      .offset = piece->offset,
                      .bytes = piece->bytes,
                      .room = rooms_.get() + room * job_.room_bytes,
                      .tag = static_cast<uint64_t>(room)});
    }
    return reader_.in_flight() > 0;
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  WeightLoader& loader_;
  Job& job_;
  std::unique_ptr<std::byte, Free> rooms_;  // [depth][room_bytes]
  std::vector<int> idle_;                   // rooms
  std::vector<const Piece*> in_room_;
  DirectReader reader_;  // last: it reads into the rooms until it is gone
};

Status WeightLoader::load(const LoadProgress& progress) {
  if (planned_.empty()) return {};
  SOLI_ASSIGN_OR_RETURN(slab_, Slab::allocate(runtime_.budget(), name_, packed_bytes_));
  for (Planned& planned : planned_) planned.matrix.data = slab_.data() + planned.slab_offset;

  std::vector<DirectFile> files;
  for (int i = 0; i < gguf_.n_shards(); ++i) files.emplace_back(gguf_.shard(i));
  Job job;
  job.pieces = cut_into_pieces(files);
  int64_t total_bytes = 0;  // without the gaps between matrices
  for (const Piece& piece : job.pieces) {
    total_bytes += piece.packed_bytes;
    job.room_bytes = std::max(job.room_bytes, DirectReader::room_bytes(piece.packed_bytes));
  }
  const int n_workers = runtime_.team().size();
  job.depth =
      static_cast<int>(std::clamp<int64_t>(kInFlightBytes / (job.room_bytes * n_workers), 1, kMostInFlight));

  const auto report = [&] {
    if (progress) progress(job.bytes_done.load(std::memory_order_relaxed), total_bytes);
  };
  runtime_.team().parallel_for(n_workers, 1, [&](int64_t, int64_t, int member) {
    const auto after_piece = [&] {
      if (member == 0) report();
    };
    if (Status status = Worker(*this, job).run(after_piece); !status)
      job.fail_with(std::move(status).error());
  });
  // The last piece need not have been this thread's.
  if (job.first_error) report();
  return job.first_error;
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
                        .file = &files[static_cast<size_t>(source.tensor->shard)],
                        .offset = source.offset() + first_row * row_bytes,
                        .bytes = n_rows * row_bytes,
                        .packed_bytes = n_strips * matrix.strip_bytes()});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  return pieces;
}

/// Packs the rows of a piece, at `rows`, into the slab; there is room for packed_bytes.
void WeightLoader::pack(const Piece& piece, std::byte* rows) {
  const Planned& planned = planned_[piece.matrix];
  const PackedMatrix& matrix = planned.matrix;
  // A zero block has the value 0 in every weight type.
  std::memset(rows + piece.bytes, 0, static_cast<size_t>(piece.packed_bytes - piece.bytes));
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
