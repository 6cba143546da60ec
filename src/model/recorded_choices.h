#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace soli {

/// What the tokens of one sequence once chose, in every layer that has experts, position by position from 0.
/// Slots hold experts in order of falling score; those that were not used have expert -1.
class RecordedChoices {
 public:
  /// `k` slots for each of the layers with experts.
  RecordedChoices(int64_t n_moe_layers, int64_t k) : n_moe_layers_(n_moe_layers), k_(k) {}

  /// Of the next position: [n_moe_layers][k] each. Ids must be in range and distinct, weights finite.
  void append(std::span<const int16_t> ids, std::span<const float> weights) {
    SOLI_CHECK(static_cast<int64_t>(ids.size()) == n_moe_layers_ * k_ && weights.size() == ids.size());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    weights_.insert(weights_.end(), weights.begin(), weights.end());
  }

  int64_t n_positions() const { return static_cast<int64_t>(ids_.size()) / (n_moe_layers_ * k_); }
  int64_t k() const { return k_; }
  /// Memory of one position.
  static int64_t bytes_per_position(int64_t n_moe_layers, int64_t k) {
    return n_moe_layers * k * static_cast<int64_t>(sizeof(int16_t) + sizeof(float));
  }

  /// Of the layer with this number among those with experts: the slots that were used.
  std::span<const int16_t> ids(int64_t position, int64_t moe_layer) const {
    const auto of_layer = std::span(ids_).subspan(slot(position, moe_layer), static_cast<size_t>(k_));
    const auto end = std::find(of_layer.begin(), of_layer.end(), int16_t{-1});
    return of_layer.first(static_cast<size_t>(end - of_layer.begin()));
  }
  /// As many.
  std::span<const float> weights(int64_t position, int64_t moe_layer) const {
    return std::span(weights_).subspan(slot(position, moe_layer), ids(position, moe_layer).size());
  }

 private:
  size_t slot(int64_t position, int64_t moe_layer) const {
    SOLI_CHECK(position < n_positions() && moe_layer < n_moe_layers_, "position {}, layer {}", position,
               moe_layer);
    return static_cast<size_t>((position * n_moe_layers_ + moe_layer) * k_);
  }

  int64_t n_moe_layers_;
  int64_t k_;
  std::vector<int16_t> ids_;    // [positions][n_moe_layers][k]
  std::vector<float> weights_;  // the same
};

}  // namespace soli
