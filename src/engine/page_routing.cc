#include "engine/page_routing.h"

#include <algorithm>
#include <cstring>

#include "base/round_up.h"

namespace soli {
namespace {

constexpr int64_t kWeightBytes = sizeof(float);
constexpr int64_t kIdBytes = sizeof(uint16_t);

}  // namespace

RoutingLayout::RoutingLayout(const ModelSpec& spec, int64_t k_max)
    : n_layers_(spec.n_moe_layers()),
      k_max_(k_max),
      record_bytes_(round_up(k_max * (kWeightBytes + kIdBytes) + kIdBytes, kWeightBytes)) {
  int64_t n = 0;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    moe_layers_.push_back(n);
    n += spec.is_moe_layer(layer) ? 1 : 0;
  }
}

void RoutingLayout::write(std::byte* page, int64_t position, int64_t moe_layer, std::span<const int32_t> ids,
                          std::span<const float> weights) const {
  const auto n = static_cast<uint16_t>(std::min(static_cast<int64_t>(ids.size()), k_max_));
  std::byte* const record = page + offset_of(position, moe_layer);
  if (n > 0) std::memcpy(record, weights.data(), n * kWeightBytes);  // else there may be no weights
  for (int64_t i = 0; i < n; ++i) {
    const auto id = static_cast<uint16_t>(ids[static_cast<size_t>(i)]);
    std::memcpy(record + k_max_ * kWeightBytes + i * kIdBytes, &id, kIdBytes);
  }
  std::memcpy(record + k_max_ * (kWeightBytes + kIdBytes), &n, kIdBytes);
}

TokenRouting RoutingLayout::read(const std::byte* page, int64_t position) const {
  TokenRouting routing;
  routing.position = position;
  routing.layer_begin.push_back(0);
  for (int64_t layer = 0; layer < n_layers_; ++layer) {
    const std::byte* const record = page + offset_of(position, layer);
    uint16_t n = 0;
    std::memcpy(&n, record + k_max_ * (kWeightBytes + kIdBytes), kIdBytes);
    const size_t begin = routing.ids.size();
    routing.ids.resize(begin + n);
    routing.weights.resize(begin + n);
    if (n > 0) {  // else there may be no memory to copy to
      std::memcpy(routing.weights.data() + begin, record, n * kWeightBytes);
      std::memcpy(routing.ids.data() + begin, record + k_max_ * kWeightBytes, n * kIdBytes);
    }
    routing.layer_begin.push_back(static_cast<uint32_t>(routing.ids.size()));
  }
  return routing;
}

void RoutingKeeper::on_route(const RouterView& view, const Choice& choice) {
  const int64_t layer = layout_.moe_layer(view.layer);
  for (int64_t row = 0; row < choice.n_rows(); ++row) {
    const auto r = static_cast<size_t>(row);
    layout_.write(row_pages_[r], view.rows[r].position, layer, choice.ids_of(row), choice.weights_of(row));
  }
  if (next_ != nullptr) next_->on_route(view, choice);
}

}  // namespace soli
