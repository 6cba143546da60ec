#include "ops/expert_meter.h"

#include <chrono>

namespace soli {

int64_t ExpertMeter::steady_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ExpertMeter::ExpertMeter(int64_t n_layers, int64_t n_experts, Now now)
    : n_layers_(n_layers),
      n_experts_(n_experts),
      now_(now),
      cells_(new Layer::Cell[static_cast<size_t>(n_layers * n_experts)]) {}

ExpertWork ExpertMeter::read(int64_t layer, int64_t expert) const {
  const Layer::Cell& cell = cells_[static_cast<size_t>(layer * n_experts_ + expert)];
  return {.calls = cell.calls.load(std::memory_order_relaxed),
          .busy_ns = cell.busy_ns.load(std::memory_order_relaxed)};
}

ExpertWork ExpertMeter::read_over_layers(int64_t expert) const {
  ExpertWork sum;
  for (int64_t layer = 0; layer < n_layers_; ++layer) {
    const ExpertWork work = read(layer, expert);
    sum.calls += work.calls;
    sum.busy_ns += work.busy_ns;
  }
  return sum;
}

}  // namespace soli
