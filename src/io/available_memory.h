#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace soli {

/// Memory that this process may still take without pushing anything out that is in use.
struct AvailableMemory {
  int64_t bytes = 0;
  std::string limited_by;  // "the machine", or the control group, by its path
};

/// The least of what the machine has available (MemAvailable, proc(5)) and what is left to the control groups
/// that the process is in, of version 1 and 2, and to those above them (the kernel's cgroup-v1/memory and
/// cgroup-v2). Cached file pages that are not in use count as free there too. `root` is put before all paths,
/// for tests. Fails with kIo where the machine does not tell.
Result<AvailableMemory> available_memory(const std::string& root = "");

}  // namespace soli
