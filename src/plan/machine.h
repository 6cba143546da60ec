#pragma once

// The machine that soli runs on: what it has (asked of the system) and what it reaches (measured).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/runtime.h"
#include "plan/measured.h"

namespace soli {

/// Caches of one level. Of the data kind, where level 1 has two.
struct CacheLevel {
  int level = 1;
  int64_t bytes = 0;  // of one cache
  int count = 0;      // how many of them there are
};

struct MachineInfo {
  std::string cpu_model;   // "unknown" where the system does not say
  std::string cpu_vendor;  // "AuthenticAMD"; "" where the system does not say
  int64_t cpu_family = 0;  // of the vendor's; 0 where the system does not say
  int packages = 0;
  int cores = 0;         // physical
  int logical_cpus = 0;  // with SMT
  int usable_cpus = 0;   // on which this process may run
  int numa_nodes = 0;
  int64_t ram_bytes = 0;               // 0 where the system does not say
  std::vector<CacheLevel> caches;      // ascending levels
  std::vector<std::string_view> isas;  // of this build that run here, the fastest first
};

/// What hwloc, the kernel and the runtime say. Fails with kIo if the topology cannot be read.
Result<MachineInfo> describe_machine(const Runtime& runtime);

/// One figure with one thread and with all of the team. While one thread is measured the others spin, since
/// a sleeping core slows its neighbour down on some machines.
struct MeasuredByThreads {
  Measured one;
  Measured all;
};

struct MachineCeilings {
  std::string_view isa;                     // of the kernels that measured
  int n_threads = 0;                        // of the team
  bool pinned = false;                      // its threads to processors
  int64_t slab_bytes = 0;                   // memory that was read over and over, huge pages asked for
  MeasuredByThreads read_bytes_per_s;       // sequential reads of the slab
  MeasuredByThreads f32_operations_per_s;   // fused multiply-adds in registers, 2 operations per lane
  MeasuredByThreads bf16_operations_per_s;  // bfloat16 dot products in registers, 2 operations per product
  MeasuredByThreads int8_operations_per_s;  // 8-bit dot products in registers, 2 operations per product
};

/// How much memory the bandwidth is measured on: min(1 GiB, max(512 MiB, 4 x the last cache), RAM / 4).
int64_t bandwidth_slab_bytes(const MachineInfo& machine);

/// Measures for about `seconds` (0.001 to 60) per figure, eight figures in all. Says what this process got at
/// this moment, with whatever else ran; nothing is derived from names of CPUs. Fails with kInvalidArgument,
/// or with kLimit if the runtime's budget has no room for the slab.
Result<MachineCeilings> measure_machine(Runtime& runtime, const MachineInfo& machine, double seconds = 1);

}  // namespace soli
