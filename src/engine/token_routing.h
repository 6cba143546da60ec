#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace soli {

/// The experts that one token called, layer by layer.
struct TokenRouting {
  int64_t position = 0;               // of the token in its sequence
  std::vector<uint32_t> layer_begin;  // [n_moe_layers + 1]: those of MoE layer l begin at layer_begin[l]
  std::vector<uint16_t> ids;          // expert; within a layer in order of falling score
  std::vector<float> weights;         // routing weight

  int64_t n_layers() const { return layer_begin.empty() ? 0 : static_cast<int64_t>(layer_begin.size()) - 1; }
  /// Of the n-th layer that has experts.
  std::span<const uint16_t> ids_of(int64_t moe_layer) const { return part(std::span(ids), moe_layer); }
  std::span<const float> weights_of(int64_t moe_layer) const { return part(std::span(weights), moe_layer); }

 private:
  template <typename T>
  std::span<T> part(std::span<T> all, int64_t moe_layer) const {
    const auto l = static_cast<size_t>(moe_layer);
    return all.subspan(layer_begin[l], layer_begin[l + 1] - layer_begin[l]);
  }
};

}  // namespace soli
