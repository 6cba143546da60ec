#include "base/affinity.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

namespace soli {
namespace {

/// The lowest logical processor of the core that `cpu` belongs to; `cpu` itself where the system does not
/// tell.
int first_of_core(int cpu) {
  std::ifstream siblings(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  int first = 0;
  return siblings >> first ? first : cpu;
}

}  // namespace

int usable_cores() {
  const Result<cpu_set_t> mask = affinity_of(::pthread_self());
  const int n = mask ? CPU_COUNT(&*mask) : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, n);
}

std::vector<int> usable_cpus() {
  const Result<cpu_set_t> mask = affinity_of(::pthread_self());
  if (!mask) return {};
  std::map<int, int> n_seen;                 // hardware threads of each core
  std::vector<std::pair<int, int>> ordered;  // which hardware thread of its core, processor
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &*mask)) ordered.emplace_back(n_seen[first_of_core(cpu)]++, cpu);
  }
  std::sort(ordered.begin(), ordered.end());
  std::vector<int> cpus;
  for (const auto& [thread_of_core, cpu] : ordered) cpus.push_back(cpu);
  return cpus;
}

Result<cpu_set_t> affinity_of(pthread_t thread) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (const int error = ::pthread_getaffinity_np(thread, sizeof(cpus), &cpus); error != 0) {
    return fail(ErrorKind::kIo, "cannot tell which processors a thread may use: {}", std::strerror(error));
  }
  return cpus;
}

Status set_affinity(pthread_t thread, const cpu_set_t& cpus) {
  if (const int error = ::pthread_setaffinity_np(thread, sizeof(cpus), &cpus); error != 0) {
    return fail(ErrorKind::kIo, "cannot pin a thread: {}", std::strerror(error));
  }
  return {};
}

cpu_set_t only_cpu(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  return cpus;
}

}  // namespace soli
