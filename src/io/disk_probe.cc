#include "io/disk_probe.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/rng.h"

namespace soli {
namespace {

constexpr int kDepths[] = {1, 2, 4, 8, 16, 32};
constexpr double kNearBest = 0.95;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// The reads of one depth.
class Round {
 public:
  Round(const DirectFile& file, int64_t read_bytes, int depth, const ReadQueueFactory& make_queue)
      : file_(file),
        read_bytes_(read_bytes),
        depth_(depth),
        rooms_(static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(DirectFile::kAlignment),
                                                          static_cast<size_t>(depth * read_bytes)))),
        queue_(make_queue(depth)),
        rng_(static_cast<uint64_t>(depth)) {}

  /// Reads for `seconds`; returns seconds per byte.
  Result<double> run(double seconds) {
    using Clock = std::chrono::steady_clock;
    if (rooms_ == nullptr) return fail(ErrorKind::kLimit, "no memory for {} reads", depth_);
    for (int slot = 0; slot < depth_; ++slot) start(slot);
    int64_t n_bytes = 0;
    const Clock::time_point begin = Clock::now();
    double passed = 0;
    int n_in_flight = depth_;
    Status status;
    while (n_in_flight > 0) {
      const ReadQueue::Completion ended = queue_->wait();
      --n_in_flight;
      if (ended.result < 0 && status) {
        status = fail(ErrorKind::kIo, "{}: cannot read: {}", file_.file().path(),
                      std::strerror(static_cast<int>(-ended.result)));
      }
      // Reads that end after the time is up took part in the others' pace, and do not count.
      if (passed >= seconds || !status) continue;
      n_bytes += ended.result;
      passed = std::chrono::duration<double>(Clock::now() - begin).count();
      start(ended.slot);
      ++n_in_flight;
    }
    if (!status) return tl::unexpected<Error>(std::move(status).error());
    if (n_bytes == 0) return fail(ErrorKind::kIo, "{}: reads give nothing", file_.file().path());
    return passed / static_cast<double>(n_bytes);
  }

 private:
  void start(int slot) {
    const int64_t n_places = (file_.file().size() - read_bytes_) / DirectFile::kAlignment + 1;
    const auto place = static_cast<int64_t>(rng_.next_below(static_cast<uint64_t>(n_places)));
    const int direct = file_.descriptor();
    queue_->start(slot, direct >= 0 ? direct : file_.file().descriptor(), place * DirectFile::kAlignment,
                  {rooms_.get() + slot * read_bytes_, static_cast<size_t>(read_bytes_)});
  }

  const DirectFile& file_;
  const int64_t read_bytes_;
  const int depth_;
  const std::unique_ptr<std::byte, Free> rooms_;
  const std::unique_ptr<ReadQueue> queue_;
  Rng rng_;
};

}  // namespace

Result<DiskFigures> measure_disk(const DirectFile& file, int64_t read_bytes, double seconds,
                                 const ReadQueueFactory& make_queue) {
  read_bytes = std::max<int64_t>(read_bytes / DirectFile::kAlignment, 1) * DirectFile::kAlignment;
  if (read_bytes > file.file().size()) {
    return fail(ErrorKind::kIo, "{}: too small to measure the disk with", file.file().path());
  }
  DiskFigures figures;
  for (const int depth : kDepths) figures.by_depth.push_back({depth, 0});
  // There and back: a virtual disk may be faster at first, which must not pass for a property of a depth.
  std::vector<DiskFigures::AtDepth*> order;
  for (DiskFigures::AtDepth& at : figures.by_depth) order.push_back(&at);
  for (const bool back : {false, true}) {
    for (DiskFigures::AtDepth* at : order) {
      SOLI_ASSIGN_OR_RETURN(const double time,
                            Round(file, read_bytes, at->depth, make_queue).run(seconds / 2));
      at->bytes_per_s = back ? 2 / (1 / at->bytes_per_s + time) : 1 / time;
    }
    std::reverse(order.begin(), order.end());
  }
  for (const DiskFigures::AtDepth& at : figures.by_depth)
    figures.bytes_per_s = std::max(figures.bytes_per_s, at.bytes_per_s);
  figures.past_cache = file.descriptor() >= 0;
  const auto near_best = [&](const DiskFigures::AtDepth& at) {
    return at.bytes_per_s >= kNearBest * figures.bytes_per_s;
  };
  figures.best_depth = std::find_if(figures.by_depth.begin(), figures.by_depth.end(), near_best)->depth;
  return figures;
}

}  // namespace soli
