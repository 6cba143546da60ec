#pragma once

#include <pthread.h>
#include <sched.h>

#include <vector>

#include "base/result.h"

namespace soli {

/// How many logical processors this thread may use, by the scheduler's affinity mask; at least 1.
int usable_cores();
/// Their numbers: one processor of each core first, then the cores' further hardware threads. Empty where the
/// system does not tell.
std::vector<int> usable_cpus();

/// The processors on which a thread may run. Fail with kIo where the system refuses.
Result<cpu_set_t> affinity_of(pthread_t thread);
Status set_affinity(pthread_t thread, const cpu_set_t& cpus);

/// The set of one processor.
cpu_set_t only_cpu(int cpu);

}  // namespace soli
