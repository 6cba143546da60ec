#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experts/cache_policy.h"
#include "experts/cache_simulator.h"

namespace soli {

/// Follows whichever of some policies would hit most at present. Each candidate runs a ghost cache (numbers
/// of experts, without bytes) on the visits of a sample of the layers, with the slots scaled down likewise,
/// as SHARDS does (Waldspurger et al. 2015). After each step the one with the best share of hits of late
/// rules, if it leads the ruling one by more than a margin. Candidates see every visit, so that a new ruler
/// knows what it must.
///
/// Cost: a visit that misses makes a policy look once at each slot. The ghosts together look at
/// candidates * sampled layers * (slots * sampled layers / layers) numbers per token at most, and as few
/// layers are sampled as keep that below kMaxLooks (auto_policy.cc), a fraction of what the ruling policy's
/// own looks come to (layers * slots). 48 layers of 128 experts, 8 chosen, 3,072 slots: 9 layers are sampled,
/// and all of on_visit and choose_victim takes 0.4 ms per token on a slow core, half of it the ruling
/// policy's.
class AutoPolicy final : public CachePolicy {
 public:
  explicit AutoPolicy(const CacheShape& shape);

  std::string_view name() const override { return "auto"; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;
  std::string_view current() const override { return candidates_[current_].name; }
  std::vector<PolicyRate> candidates() const override;

  int64_t n_sampled_layers() const { return n_sampled_; }

 private:
  struct Candidate {
    std::string name;
    std::unique_ptr<CachePolicy> policy;        // of the real slots
    std::unique_ptr<CachePolicy> ghost_policy;  // of the ghost's
    std::unique_ptr<CacheSimulator> ghost;
    double hits = 0;  // decayed
  };

  void visit_ghosts(const LayerVisit& visit);
  void choose_candidate();
  double rate(const Candidate& candidate) const;

  std::vector<Candidate> candidates_;
  size_t current_ = 0;
  int64_t n_sampled_ = 0;
  std::vector<int32_t> sample_of_layer_;  // [layers] number among the sampled ones, -1: not sampled
  double decay_;                          // per sampled visit
  double requests_ = 0;                   // decayed; the same for all ghosts
};

}  // namespace soli
