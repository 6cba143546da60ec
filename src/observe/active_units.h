#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"

namespace soli {

/// Which inner units of feed-forwards were ever active. In a call, unit i of h = activation(gate, up) is
/// active where |h_i| > threshold * rms(h), rms(h)^2 = mean(h_i^2). So the units that are not have less than
/// threshold^2 of |h|^2 together, whatever the width.
class ActiveUnits {
 public:
  ActiveUnits(const ModelSpec& spec, double threshold);
  /// Memory that it takes: a bit per unit.
  static int64_t bytes_needed(const ModelSpec& spec);

  double threshold() const { return threshold_; }
  /// The expert in place of which a layer's common feed-forward stands: the shared experts, or a dense
  /// layer's own.
  int64_t common() const { return n_experts_; }
  /// Adds a call; returns its number of active units.
  int64_t add(int64_t layer, int64_t expert, std::span<const float> inner);
  /// Units that no call has made active.
  int64_t n_dead(int64_t layer, int64_t expert) const;
  int64_t n_units(int64_t layer, int64_t expert) const;

 private:
  struct Place {
    size_t first_word;
    int64_t n_units;
  };
  Place place_of(int64_t layer, int64_t expert) const;

  const ModelSpec spec_;
  const int64_t n_experts_;
  const double threshold_;
  std::vector<size_t> first_word_;  // [layers + 1]
  std::vector<uint64_t> ever_;      // bits
};

}  // namespace soli
