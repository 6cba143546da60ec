#include "experts/turns.h"

#include <limits>

#include "base/check.h"

namespace soli {

Turns::Turns(const CacheShape& shape) : steps_until_(static_cast<size_t>(shape.n_layers)) {
  SOLI_CHECK(shape.n_layers > 0 && shape.n_layers <= std::numeric_limits<uint16_t>::max(), "{} layers",
             shape.n_layers);
  for (int64_t layer = 0; layer < shape.n_layers; ++layer)
    layer_of_.insert(layer_of_.end(), static_cast<size_t>(shape.n_experts), static_cast<uint16_t>(layer));
}

const std::vector<double>& Turns::steps_until() {
  if (counted_for_ == layer_) return steps_until_;
  counted_for_ = layer_;
  const size_t n = steps_until_.size();
  const auto at = static_cast<size_t>(layer_);
  for (size_t i = 1; i <= n; ++i)
    steps_until_[at + i < n ? at + i : at + i - n] = static_cast<double>(i) / static_cast<double>(n);
  return steps_until_;
}

}  // namespace soli
