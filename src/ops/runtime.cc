#include "ops/runtime.h"

#include <algorithm>
#include <system_error>

namespace soli {

Result<std::unique_ptr<Runtime>> Runtime::create(const Options& options) {
  if (options.n_threads < 0 || options.n_threads > ThreadTeam::kMaxThreads) {
    return fail(ErrorKind::kInvalidArgument, "threads: {} is not allowed; 1 to {}, or 0 for one per core",
                options.n_threads, ThreadTeam::kMaxThreads);
  }
  SOLI_ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::select_kernels(options.isa));
  const int n_threads =
      options.n_threads == 0 ? std::min(soli::usable_cores(), ThreadTeam::kMaxThreads) : options.n_threads;
  std::unique_ptr<Runtime> runtime;
  try {
    runtime.reset(new Runtime(n_threads, options.memory_bytes, *kernels));
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kLimit, "cannot start {} threads: {}", n_threads, error.what());
  }
  if (options.pin) SOLI_RETURN_IF_ERROR(runtime->team().pin());
  return runtime;
}

}  // namespace soli
