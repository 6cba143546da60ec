#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/affinity.h"
#include "base/budget.h"
#include "base/result.h"
#include "base/thread_team.h"
#include "kernels/kernel_table.h"

namespace soli {

/// What a process has: its threads, its memory promise and its instruction set. Engines share one Runtime and
/// must not outlive it.
class Runtime {
 public:
  struct Options {
    int n_threads = 0;  // 0: as many as usable cores
    int64_t memory_bytes = Budget::kUnlimited;
    std::string_view isa = {};  // "": the fastest that the machine has
    bool pin = false;           // each thread to a processor of its own, the calling one too
  };
  /// Fails with kInvalidArgument on a thread count outside [0, ThreadTeam::kMaxThreads] or an ISA that is not
  /// there, and where there are more threads than processors to pin them to.
  static Result<std::unique_ptr<Runtime>> create(const Options& options);

  ThreadTeam& team() { return team_; }
  Budget& budget() { return budget_; }
  const kernels::KernelTable& kernels() const { return kernels_; }
  /// Processors that this process might use when the runtime was made, which pinning does not change.
  int usable_cores() const { return usable_cores_; }

 private:
  Runtime(int n_threads, int64_t memory_bytes, const kernels::KernelTable& kernels)
      : usable_cores_(soli::usable_cores()), team_(n_threads), budget_(memory_bytes), kernels_(kernels) {}

  const int usable_cores_;
  ThreadTeam team_;
  Budget budget_;
  const kernels::KernelTable& kernels_;
};

}  // namespace soli
