#include "experts/belady.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace soli {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

ExpertNumber number_of(const AccessTrace& trace, const LayerVisit& visit, size_t i) {
  return static_cast<ExpertNumber>(visit.layer * trace.n_experts() + visit.experts[i]);
}

/// For each expert asked for, in the order of the trace: the visit that asks for it next.
std::vector<int64_t> next_uses(const AccessTrace& trace) {
  std::vector<int64_t> next;
  std::vector<int64_t> last_request(static_cast<size_t>(trace.n_layers() * trace.n_experts()), -1);
  AccessTrace::Reader reader(trace);
  for (int64_t v = 0; const LayerVisit* visit = reader.next(); ++v) {
    for (size_t i = 0; i < visit->experts.size(); ++i) {
      int64_t& last = last_request[static_cast<size_t>(number_of(trace, *visit, i))];
      if (last >= 0) next[static_cast<size_t>(last)] = v;
      last = static_cast<int64_t>(next.size());
      next.push_back(kNever);
    }
  }
  return next;
}

/// Residents by the visit that asks for them next, the latest first.
class Residents {
 public:
  explicit Residents(const AccessTrace& trace)
      : next_use_(static_cast<size_t>(trace.n_layers() * trace.n_experts()), -1) {}

  int64_t size() const { return size_; }
  bool has(ExpertNumber expert) const { return next_use_[static_cast<size_t>(expert)] >= 0; }
  void put(ExpertNumber expert, int64_t next_use) {
    size_ += has(expert) ? 0 : 1;
    next_use_[static_cast<size_t>(expert)] = next_use;
    by_next_use_.emplace(next_use, expert);
  }
  void remove(ExpertNumber expert) {
    if (!has(expert)) return;
    next_use_[static_cast<size_t>(expert)] = -1;
    --size_;
  }
  void evict_latest() {
    for (;;) {
      const auto [next_use, expert] = by_next_use_.top();
      by_next_use_.pop();
      if (next_use_[static_cast<size_t>(expert)] != next_use) continue;  // an older entry
      return remove(expert);
    }
  }

 private:
  std::vector<int64_t> next_use_;  // [experts] -1: not here
  std::priority_queue<std::pair<int64_t, ExpertNumber>> by_next_use_;
  int64_t size_ = 0;
};

}  // namespace

CacheCounts belady_counts(const AccessTrace& trace, int64_t n_slots) {
  const std::vector<int64_t> next = next_uses(trace);
  Residents residents(trace);
  CacheCounts counts;
  AccessTrace::Reader reader(trace);
  while (const LayerVisit* visit = reader.next()) {
    const auto n = static_cast<int64_t>(visit->experts.size());
    const int64_t* const next_use = next.data() + counts.requests;
    counts.requests += n;
    // What this visit needs must be there at its end, so it is taken out while the others make room.
    for (size_t i = 0; i < visit->experts.size(); ++i) {
      counts.hits += residents.has(number_of(trace, *visit, i)) ? 1 : 0;
      residents.remove(number_of(trace, *visit, i));
    }
    if (n <= n_slots) {
      while (residents.size() + n > n_slots) residents.evict_latest();
    }
    for (size_t i = 0; i < visit->experts.size(); ++i)
      residents.put(number_of(trace, *visit, i), next_use[i]);
    while (residents.size() > n_slots) residents.evict_latest();
  }
  return counts;
}

CacheCounts best_static_counts(const AccessTrace& trace, int64_t n_slots) {
  std::vector<int64_t> requests(static_cast<size_t>(trace.n_layers() * trace.n_experts()));
  AccessTrace::Reader reader(trace);
  CacheCounts counts;
  while (const LayerVisit* visit = reader.next()) {
    for (size_t i = 0; i < visit->experts.size(); ++i) {
      ++requests[static_cast<size_t>(number_of(trace, *visit, i))];
      ++counts.requests;
    }
  }
  std::sort(requests.begin(), requests.end(), std::greater<>());
  for (size_t i = 0; i < requests.size() && static_cast<int64_t>(i) < n_slots; ++i)
    counts.hits += requests[i];
  return counts;
}

}  // namespace soli
