#include "plan/machine.h"

#include <hwloc.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/slab.h"
#include "base/units.h"

namespace soli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMinSeconds = 0.001;
constexpr double kMaxSeconds = 60;
constexpr int kMinPasses = 3;
constexpr int kMaxPasses = 1000;
constexpr int64_t kReadRangeBytes = 4 * kMiB;  // what one thread reads at a time

struct TopologyDelete {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyDelete>;

Result<Topology> load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail(ErrorKind::kIo, "cannot prepare to read the topology");
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0)
    return fail(ErrorKind::kIo, "cannot read the topology of the machine: {}", std::strerror(errno));
  return topology;
}

std::vector<CacheLevel> caches_of(hwloc_topology_t topology) {
  constexpr std::array<hwloc_obj_type_t, 5> kTypes = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
                                                      HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE};
  std::vector<CacheLevel> caches;
  for (size_t i = 0; i < kTypes.size(); ++i) {
    const int count = hwloc_get_nbobjs_by_type(topology, kTypes[i]);
    if (count < 1) continue;
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, kTypes[i], 0);
    const auto bytes = static_cast<int64_t>(cache->attr->cache.size);
    if (bytes > 0) caches.push_back({static_cast<int>(i) + 1, bytes, count});
  }
  return caches;
}

/// The part of a pass that one thread does; returns bytes read or operations done.
using Work = FunctionRef<double(int64_t item)>;

/// Repeats a pass, which returns what it did, until the time is over; the first one only warms up.
Measured repeat(double seconds, FunctionRef<double()> pass) {
  pass();
  std::vector<double> rates;
  const auto begin = Clock::now();
  double elapsed = 0;
  while (static_cast<int>(rates.size()) < kMinPasses || elapsed < seconds) {
    const auto before = Clock::now();
    const double done = pass();
    const auto after = Clock::now();
    rates.push_back(done / std::chrono::duration<double>(after - before).count());
    elapsed = std::chrono::duration<double>(after - begin).count();
    if (static_cast<int>(rates.size()) == kMaxPasses) break;
  }
  return summary_of(std::move(rates));
}

/// All items on one thread, while the other members spin.
double run_on_one(ThreadTeam& team, int64_t n_items, Work work) {
  double done = 0;
  std::atomic<bool> finished{false};
  team.parallel_for(team.size(), 1, [&](int64_t begin, int64_t, int) {
    if (begin == 0) {  // taken first, by whoever comes first
      for (int64_t i = 0; i < n_items; ++i) done += work(i);
      finished.store(true, std::memory_order_release);
    } else {
      while (!finished.load(std::memory_order_acquire)) _mm_pause();
    }
  });
  return done;
}

/// All items on the whole team.
double run_on_all(ThreadTeam& team, int64_t n_items, Work work) {
  std::vector<double> done(static_cast<size_t>(n_items));
  team.parallel_for(n_items, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) done[static_cast<size_t>(i)] = work(i);
  });
  double sum = 0;
  for (const double part : done) sum += part;
  return sum;
}

MeasuredByThreads measure_reads(Runtime& runtime, Slab& slab, double seconds) {
  const kernels::KernelTable& kernels = runtime.kernels();
  ThreadTeam& team = runtime.team();
  const int64_t bytes = slab.bytes() / kReadRangeBytes * kReadRangeBytes;
  const int64_t n_ranges = bytes / kReadRangeBytes;
  // Pages become real, and lie near the threads, when they are first written.
  team.parallel_for(n_ranges, 1, [&](int64_t begin, int64_t end, int) {
    std::memset(slab.data() + begin * kReadRangeBytes, 1,
                static_cast<size_t>((end - begin) * kReadRangeBytes));
  });
  std::atomic<uint64_t> checksum{0};  // so that no read can be left out
  const auto read = [&](int64_t range) {
    checksum.fetch_xor(kernels.read_checksum(slab.data() + range * kReadRangeBytes, kReadRangeBytes),
                       std::memory_order_relaxed);
    return static_cast<double>(kReadRangeBytes);
  };
  return {repeat(seconds, [&] { return run_on_one(team, n_ranges, read); }),
          repeat(seconds, [&] { return run_on_all(team, n_ranges, read); })};
}

/// `probe(iterations)` runs in registers and returns its operations. A pass takes a hundredth of the time.
MeasuredByThreads measure_operations(Runtime& runtime, double seconds, FunctionRef<double(int64_t)> probe) {
  int64_t iterations = 1000;
  for (double took = 0; took < seconds / 100; iterations *= 2) {
    const auto before = Clock::now();
    probe(iterations);
    took = std::chrono::duration<double>(Clock::now() - before).count();
  }
  ThreadTeam& team = runtime.team();
  const auto work = [&](int64_t) { return probe(iterations); };
  return {repeat(seconds, [&] { return run_on_one(team, 1, work); }),
          repeat(seconds, [&] { return run_on_all(team, team.size(), work); })};
}

MeasuredByThreads measure_f32(Runtime& runtime, double seconds) {
  return measure_operations(runtime, seconds, [&](int64_t iterations) {
    // s = s / 2 + 1 tends to 2: no number on the way is slow.
    std::array<float, kernels::kProbeFmaFloats> state;
    state.fill(1.0F);
    std::fill_n(state.begin(), 16, 0.5F);
    return static_cast<double>(runtime.kernels().probe_fma(iterations, state.data()));
  });
}

MeasuredByThreads measure_bf16(Runtime& runtime, double seconds) {
  return measure_operations(runtime, seconds, [&](int64_t iterations) {
    // 1 * 1 - 1 * 1: sums stay small.
    std::array<uint16_t, kernels::kProbeBf16Operands> operands;
    for (size_t i = 0; i < operands.size(); ++i)
      operands[i] = i < operands.size() / 2 || i % 2 == 0 ? 0x3f80 : 0xbf80;
    std::array<float, kernels::kProbeDotSums> sums = {};
    return static_cast<double>(runtime.kernels().probe_dot_bf16(iterations, operands.data(), sums.data()));
  });
}

MeasuredByThreads measure_int8(Runtime& runtime, double seconds) {
  return measure_operations(runtime, seconds, [&](int64_t iterations) {
    // Products that cancel each other: sums stay small for any number of iterations.
    std::array<int8_t, kernels::kProbeDotBytes> operands;
    for (size_t i = 0; i < operands.size(); ++i)
      operands[i] = i < operands.size() / 2 || i % 2 == 0 ? int8_t{1} : int8_t{-1};
    std::array<int32_t, kernels::kProbeDotSums> sums = {};
    return static_cast<double>(runtime.kernels().probe_dot_i8(iterations, operands.data(), sums.data()));
  });
}

}  // namespace

Result<MachineInfo> describe_machine(const Runtime& runtime) {
  SOLI_ASSIGN_OR_RETURN(const Topology topology, load_topology());
  const auto count = [&](hwloc_obj_type_t type) {
    return std::max(1, hwloc_get_nbobjs_by_type(topology.get(), type));
  };
  MachineInfo machine;
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, 0);
  const auto info = [&](const char* name, const char* otherwise) {
    const char* const value = package != nullptr ? hwloc_obj_get_info_by_name(package, name) : nullptr;
    return std::string(value != nullptr ? value : otherwise);
  };
  machine.cpu_model = info("CPUModel", "unknown");
  machine.cpu_vendor = info("CPUVendor", "");
  machine.cpu_family = std::strtoll(info("CPUFamilyNumber", "0").c_str(), nullptr, 10);
  machine.packages = count(HWLOC_OBJ_PACKAGE);
  machine.cores = count(HWLOC_OBJ_CORE);
  machine.logical_cpus = count(HWLOC_OBJ_PU);
  machine.usable_cpus = runtime.usable_cores();
  machine.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  // Not hwloc's sum over NUMA nodes, which misses memory that a virtual machine was given later.
  machine.ram_bytes = std::max(int64_t{0}, int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE));
  machine.caches = caches_of(topology.get());
  machine.isas = kernels::available_isas();
  return machine;
}

int64_t bandwidth_slab_bytes(const MachineInfo& machine) {
  const int64_t last_cache_bytes = machine.caches.empty() ? 0 : machine.caches.back().bytes;
  int64_t bytes = std::clamp(4 * std::min(last_cache_bytes, kGiB), 512 * kMiB, kGiB);
  if (machine.ram_bytes > 0) bytes = std::min(bytes, machine.ram_bytes / 4);
  return std::max(bytes / kReadRangeBytes, int64_t{1}) * kReadRangeBytes;
}

Result<MachineCeilings> measure_machine(Runtime& runtime, const MachineInfo& machine, double seconds) {
  if (!(seconds >= kMinSeconds && seconds <= kMaxSeconds)) {
    return fail(ErrorKind::kInvalidArgument, "seconds per figure: {} is not allowed; {} to {}", seconds,
                kMinSeconds, kMaxSeconds);
  }
  SOLI_ASSIGN_OR_RETURN(Slab slab,
                        Slab::allocate(runtime.budget(), "bandwidth probe", bandwidth_slab_bytes(machine)));
  return MachineCeilings{.isa = runtime.kernels().isa,
                         .n_threads = runtime.team().size(),
                         .pinned = runtime.team().is_pinned(),
                         .slab_bytes = slab.bytes(),
                         .read_bytes_per_s = measure_reads(runtime, slab, seconds),
                         .f32_operations_per_s = measure_f32(runtime, seconds),
                         .bf16_operations_per_s = measure_bf16(runtime, seconds),
                         .int8_operations_per_s = measure_int8(runtime, seconds)};
}

}  // namespace soli
