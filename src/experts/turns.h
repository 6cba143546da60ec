#pragma once

#include <cstdint>
#include <vector>

#include "experts/cache_policy.h"

namespace soli {

/// Layers take turns in a cycle, and so each expert's next chance to be used is known: how far its layer's
/// next turn is, counted in steps. The layer whose turn it is has the longest way, a whole step.
class Turns {
 public:
  explicit Turns(const CacheShape& shape);

  /// A layer's turn begins.
  void begin(int64_t layer) { layer_ = layer; }
  size_t layer_of(ExpertNumber expert) const { return layer_of_[static_cast<size_t>(expert)]; }
  /// Steps until the next turn of each layer, [layers], in (0, 1]. Valid until the next begin().
  const std::vector<double>& steps_until();

 private:
  int64_t layer_ = 0;
  int64_t counted_for_ = -1;         // layer
  std::vector<double> steps_until_;  // [layers]
  std::vector<uint16_t> layer_of_;   // [experts] a table, since a division per look costs more than the look
};

}  // namespace soli
