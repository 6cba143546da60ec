#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experts/cache_policy.h"
#include "experts/cache_simulator.h"

namespace soli {

/// Follows whichever of some policies would have hit most of late. Each of them runs a ghost cache, that is,
/// numbers of experts without bytes, on a sample of the layers and with the slots scaled down likewise; the
/// shares of hits of all ghosts are compared once per step.
///
/// Cost: a ghost looks at its slots once per visit that misses, so that all ghosts together look at
/// candidates * sampled layers * (slots * sampled layers / layers) numbers per token. As many layers are
/// sampled as keep this below kMaxLooks: 14 of 48 with 3,072 slots.
class AutoPolicy final : public CachePolicy {
 public:
  explicit AutoPolicy(const CacheShape& shape);

  std::string_view name() const override { return "auto"; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;
  std::string_view current() const override { return candidates_[current_].name; }
  std::vector<PolicyRate> candidates() const override;

 private:
  struct Candidate {
    std::string name;
    std::unique_ptr<CachePolicy> policy;  // of the real slots; sees every visit, so that it can rule at once
    std::unique_ptr<CachePolicy> ghost_policy;
    std::unique_ptr<CacheSimulator> ghost;
    double hits = 0;  // of late
  };

  void visit_ghosts(const LayerVisit& visit);
  void choose_candidate();
  double rate(const Candidate& candidate) const;

  std::vector<Candidate> candidates_;
  size_t current_ = 0;
  std::vector<int32_t> sample_of_layer_;  // [layers] its number in the sample, -1: not in it
  int64_t n_sampled_ = 0;
  double decay_ = 1;
  double requests_ = 0;  // of late, the same for all ghosts
};

}  // namespace soli
