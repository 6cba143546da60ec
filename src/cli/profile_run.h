#pragma once

#include <functional>
#include <vector>

#include "cli/eval_texts.h"
#include "engine/engine.h"
#include "observe/routing_profile.h"
#include "observe/trace_file.h"

namespace soli::cli {

/// A profile of texts of which nothing has been read.
RoutingProfile empty_profile(const ModelSpec& spec, const std::vector<EvalText>& texts);

/// Fails where a saved profile is not the beginning of `fresh`: of another model, other texts, windows or
/// policy; names the first such member, what it is and what is allowed.
Status check_can_resume(const RoutingProfile& saved, const RoutingProfile& fresh);

struct ProfileRun {
  int64_t n_parallel = 1;
  bool texts_begin_with_bos = false;  // which is no part of the profile
  RoutingPolicy policy = {};
  /// Told the tokens that are counted, of this run, and of how many; false stops the run.
  std::function<bool(int64_t done, int64_t total)> on_progress = {};
  /// Where not null, has what was counted added to it.
  std::vector<TraceWindow>* windows = nullptr;
};

/// Reads the windows that `profile` does not have yet, the first of each domain, then the second, and so on,
/// so that at any time all domains are about equally far. Sets the engine's observer. Windows are counted in
/// this order whichever ends first, and the profile is the same for any n_parallel and however often it was
/// stopped in between. True when all are done. Fails where a request does.
Result<bool> run_profile_windows(Engine& engine, const std::vector<EvalText>& texts, const ProfileRun& run,
                                 RoutingProfile& profile);

}  // namespace soli::cli
