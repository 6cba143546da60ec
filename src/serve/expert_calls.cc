#include "serve/expert_calls.h"

namespace soli::serve {

ExpertCalls::ExpertCalls(int64_t n_experts)
    : n_experts_(static_cast<size_t>(n_experts)), calls_(new std::atomic<int64_t>[n_experts_]()) {}

/// Only the engine's thread writes, so that a load and a store make an addition.
void ExpertCalls::on_route(const RouterView&, const Choice& choice) {
  for (const int32_t expert : choice.ids) {
    std::atomic<int64_t>& calls = calls_[static_cast<size_t>(expert)];
    calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

std::vector<int64_t> ExpertCalls::read() const {
  std::vector<int64_t> calls(n_experts_);
  for (size_t e = 0; e < n_experts_; ++e) calls[e] = calls_[e].load(std::memory_order_relaxed);
  return calls;
}

}  // namespace soli::serve
