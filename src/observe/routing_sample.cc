#include "observe/routing_sample.h"

#include <algorithm>
#include <utility>

namespace soli {

void RoutingSample::add(SampledRun run) {
  const auto place = std::lower_bound(runs_.begin(), runs_.end(), run.key,
                                      [](const SampledRun& a, uint64_t key) { return a.key < key; });
  if (place != runs_.end() && place->key == run.key) return;
  if (place == runs_.end() && runs_.size() == kMaxRuns) return;
  runs_.insert(place, std::move(run));
  if (runs_.size() > kMaxRuns) runs_.pop_back();
}

void RoutingSample::merge(const RoutingSample& other) {
  for (const SampledRun& run : other.runs_) add(run);
}

}  // namespace soli
