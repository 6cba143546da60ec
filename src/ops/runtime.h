#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

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
  };
  /// Fails with kInvalidArgument on a thread count outside [0, ThreadTeam::kMaxThreads] or an ISA that is not
  /// there.
  static Result<std::unique_ptr<Runtime>> create(const Options& options);

  ThreadTeam& team() { return team_; }
  Budget& budget() { return budget_; }
  const kernels::KernelTable& kernels() const { return kernels_; }

 private:
  Runtime(int n_threads, int64_t memory_bytes, const kernels::KernelTable& kernels)
      : team_(n_threads), budget_(memory_bytes), kernels_(kernels) {}

  ThreadTeam team_;
  Budget budget_;
  const kernels::KernelTable& kernels_;
};

/// Cores on which this process may run (the scheduler's affinity mask), at least 1.
int usable_cores();

}  // namespace soli
