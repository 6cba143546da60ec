#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

// Which expert leaves the memory when another one must come in: the part of an expert memory that thinks. A
// policy sees who was used and names who goes; slots, reads and pins belong to the store that asks it.
namespace soli {

/// Number of an expert in the whole model: number of its layer among those with experts * n_experts + expert.
using ExpertNumber = int32_t;

/// What a policy must know of model and cache.
struct CacheShape {
  int64_t n_layers = 0;   // with experts
  int64_t n_experts = 0;  // per layer
  int64_t n_slots = 0;
};

/// One layer's turn in a step.
struct LayerVisit {
  int64_t layer = 0;                      // its number among those with experts
  int64_t n_tokens = 0;                   // rows of the step
  std::span<const int32_t> experts = {};  // distinct, ascending
  std::span<const int32_t> calls = {};    // [experts] rows that chose each
};

/// A policy that another one may follow, and the share of the experts asked for of late that it would have
/// had.
struct PolicyRate {
  std::string_view name;
  double hit_rate = 0;  // measured, on a sample
};

/// Says which expert leaves the memory. Engine's thread only. Decides speed, never results.
class CachePolicy {
 public:
  virtual ~CachePolicy() = default;
  virtual std::string_view name() const = 0;  // for auto: "auto"
  /// Before anything is evicted for the visit.
  virtual void on_visit(const LayerVisit& visit) = 0;
  /// Index into `residents` of the one that is worth least; entries of -1 may not be evicted. At least one
  /// entry is not -1.
  virtual size_t choose_victim(std::span<const ExpertNumber> residents) = 0;

  /// Name of the policy that rules at present: for auto, the candidate that it follows.
  virtual std::string_view current() const { return name(); }
  /// For auto: all that it may follow. Valid as long as the policy.
  virtual std::vector<PolicyRate> candidates() const { return {}; }
};

enum class CachePolicyKind { kAuto, kLru, kLfu, kLeastStale, kShares };
std::unique_ptr<CachePolicy> make_cache_policy(CachePolicyKind kind, const CacheShape& shape);

}  // namespace soli
