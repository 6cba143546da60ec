#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "engine/request.h"
#include "model/choice_limits.h"

namespace soli {

/// What an engine has done since it was made, and how it stands. Nothing changes while it is idle. At any
/// time n_submitted = sum of n_finished + n_running + n_waiting.
struct EngineCounters {
  int64_t steps = 0;
  int64_t prompt_rows = 0;  // rows of prompts
  int64_t decode_rows = 0;  // rows of generated tokens
  /// Of those rows, the ones that were computed before, and lost with pages that were taken away.
  int64_t recomputed_rows = 0;
  int64_t most_rows = 0;  // of a step
  /// Calls of experts that found no room, where policies limit it; recomputed rows count again.
  OverflowCounts overflow = {};

  int64_t n_submitted = 0;                              // accepted requests
  int64_t n_refused = 0;                                // requests for which the queue was full
  std::array<int64_t, kFinishReasons> n_finished = {};  // by FinishReason
  int64_t n_preempted = 0;                              // times that a sequence lost its pages

  /// Of all requests whose prompt has been begun: their prompts' tokens, and those of them that came from
  /// the prefix cache.
  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;
  int64_t generated_tokens = 0;  // delivered

  // How it stands.
  int64_t n_running = 0;
  int64_t n_paused = 0;  // of those, the ones whose clients have yet to read, after the last step
  int64_t n_waiting = 0;
  int64_t kv_pages = 0;            // allocated; freed ones are kept
  int64_t kv_pages_in_use = 0;     // by sequences or the prefix cache
  int64_t prefix_cache_pages = 0;  // of those in use
  int64_t prefix_cache_evictions = 0;

  int64_t finished(FinishReason reason) const { return n_finished[static_cast<size_t>(reason)]; }
};

/// The counters of an engine, for all threads.
class EngineMeter {
 public:
  EngineCounters read() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  /// Calls change(counters), all of which readers see at once.
  template <typename Change>
  void update(Change change) {
    const std::lock_guard lock(mutex_);
    change(counters_);
  }

 private:
  mutable std::mutex mutex_;
  EngineCounters counters_;
};

}  // namespace soli
