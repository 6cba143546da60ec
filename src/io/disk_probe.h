#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "io/direct_file.h"
#include "io/read_queue.h"

namespace soli {

/// What a disk gives to random reads, by how many are in flight. Measured.
struct DiskFigures {
  struct AtDepth {
    int depth = 0;
    double bytes_per_s = 0;
  };
  std::vector<AtDepth> by_depth;
  int best_depth = 0;       // the smallest that comes near the best bandwidth
  double bytes_per_s = 0;   // the best of all depths
  bool past_cache = false;  // read with O_DIRECT; else the page cache has taken part
};

/// Reads pieces of `read_bytes` from anywhere in the file at depths 1, 2, 4 ... 32, for `seconds` each.
/// Fails with kIo where the file cannot be read.
Result<DiskFigures> measure_disk(const DirectFile& file, int64_t read_bytes, double seconds,
                                 const ReadQueueFactory& make_queue = make_fastest_queue);

}  // namespace soli
