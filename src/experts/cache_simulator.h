#pragma once

#include <vector>

#include "experts/cache_policy.h"

namespace soli {

/// Hits among experts asked for. Each expert of a visit is asked for once, by however many rows.
struct CacheCounts {
  int64_t hits = 0;
  int64_t requests = 0;

  double rate() const {
    return requests == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(requests);
  }
};

/// What a store with so many slots would hit and miss under a policy: the same turns, without bytes. Starts
/// empty. One thread.
///
/// A visit's experts that are there are hits, all of them. Those that are missing come in one by one, in
/// ascending order: into a free slot while there is one, else in place of the policy's victim. Nothing that
/// the visit uses is evicted for it, unless it needs more experts than there are slots: when every slot holds
/// an expert of the visit, a wave is over, and its experts may go.
class CacheSimulator {
 public:
  /// Borrows the policy, whose turns it leads from now on.
  CacheSimulator(const CacheShape& shape, CachePolicy& policy);

  /// Result: hits of the visit.
  int64_t visit(const LayerVisit& visit);

  const CacheCounts& layer(int64_t layer) const { return layers_[static_cast<size_t>(layer)]; }
  CacheCounts total() const;
  /// Expert of each slot, -1 where it is free.
  const std::vector<ExpertNumber>& slots() const { return slots_; }

 private:
  /// A slot that may be filled now.
  size_t take_slot();
  void pin(size_t slot);
  void end_wave();

  CacheShape shape_;
  CachePolicy& policy_;
  std::vector<CacheCounts> layers_;
  std::vector<ExpertNumber> slots_;      // [slots]
  std::vector<ExpertNumber> evictable_;  // [slots] the same, -1 where it may not go
  std::vector<int32_t> slot_of_;         // [experts] -1 where it is not there
  std::vector<size_t> pinned_;           // slots of the present wave
  std::vector<ExpertNumber> missing_;    // of the present visit
  size_t n_filled_ = 0;
};

}  // namespace soli
