#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv_pages.h"
#include "engine/token_routing.h"
#include "model/hooks.h"
#include "model/spec.h"

namespace soli {

/// How the routing of a KV page's positions lies beside it: [kKvPagePositions][n_moe_layers] records of
/// weights [k_max], ids [k_max] and the number of them that count. It goes where the page goes, so that a
/// prompt that comes from the prefix cache still tells its experts.
class RoutingLayout {
 public:
  /// `k_max` experts of a token and layer are kept at most: what a request may ask for.
  RoutingLayout(const ModelSpec& spec, int64_t k_max);

  int64_t page_bytes() const { return kKvPagePositions * n_layers_ * record_bytes_; }
  /// The number of a layer among those that have experts.
  int64_t moe_layer(int64_t layer) const { return moe_layers_[static_cast<size_t>(layer)]; }

  /// A position's choice in one layer, into the routing part of its page. Of more than k_max experts, which
  /// only a control can choose, the first ones stay.
  void write(std::byte* page, int64_t position, int64_t moe_layer, std::span<const int32_t> ids,
             std::span<const float> weights) const;
  TokenRouting read(const std::byte* page, int64_t position) const;

 private:
  int64_t offset_of(int64_t position, int64_t moe_layer) const {
    return (position % kKvPagePositions * n_layers_ + moe_layer) * record_bytes_;
  }

  int64_t n_layers_;  // that have experts
  int64_t k_max_;
  int64_t record_bytes_;
  std::vector<int64_t> moe_layers_;  // [layers]
};

/// Writes what the rows of a step choose beside their KV pages, and lets another observer see it too.
class RoutingKeeper : public RouterObserver {
 public:
  explicit RoutingKeeper(const RoutingLayout& layout) : layout_(layout) {}

  /// Before each step: where its rows' pages keep routing, [rows]; and who else looks on, or null.
  void begin_step(std::vector<std::byte*>& row_pages, RouterObserver* next) {
    row_pages_.swap(row_pages);
    next_ = next;
  }
  void on_route(const RouterView& view, const Choice& choice) override;

 private:
  const RoutingLayout& layout_;
  std::vector<std::byte*> row_pages_;
  RouterObserver* next_ = nullptr;
};

}  // namespace soli
