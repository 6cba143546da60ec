#include "ops/runtime.h"

#include <sched.h>

#include <algorithm>

namespace soli {

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  return std::max(1, CPU_COUNT(&cores));
}

Result<std::unique_ptr<Runtime>> Runtime::create(const Options& options) {
  if (options.n_threads < 0 || options.n_threads > ThreadTeam::kMaxThreads) {
    return fail(ErrorKind::kInvalidArgument, "threads: {} is not allowed; 1 to {}, or 0 for one per core",
                options.n_threads, ThreadTeam::kMaxThreads);
  }
  SOLI_ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::select_kernels(options.isa));
  const int n_threads =
      options.n_threads == 0 ? std::min(usable_cores(), ThreadTeam::kMaxThreads) : options.n_threads;
  return std::unique_ptr<Runtime>(new Runtime(n_threads, options.memory_bytes, *kernels));
}

}  // namespace soli
