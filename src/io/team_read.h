#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_team.h"
#include "io/direct_file.h"

namespace soli {

/// Told now and then while weights are read, on the thread that loads; at the end, that all is done.
using LoadProgress = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

/// A range of a file, and where it goes.
struct TeamRead {
  const DirectFile* file = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t used_bytes = 0;  // that may be written from the range's first byte on, at least `bytes`; progress
                           // counts them
  /// Null: a small room of the thread's own, until `use` returns. Else memory aligned to
  /// DirectFile::kAlignment; offset and bytes are multiples of that too, and used_bytes equals bytes.
  std::byte* target = nullptr;
};

/// Makes all reads, in their order as far as that goes, on all threads of the team, each of which keeps some
/// in flight. `use` gets the number of a read and its bytes, on any of the threads, several at a time; with a
/// room it may write used_bytes. Fails with the first error of a read or of `use`; then the rest is given up.
Status read_on_team(ThreadTeam& team, std::span<const TeamRead> reads,
                    FunctionRef<Status(size_t read, std::span<std::byte> data)> use,
                    const LoadProgress& progress);

}  // namespace soli
