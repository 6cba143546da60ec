#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/hooks.h"

namespace soli::serve {

/// Counts how often each expert is called, over all layers. Read from any thread.
class ExpertCalls final : public RouterObserver {
 public:
  explicit ExpertCalls(int64_t n_experts);

  void on_route(const RouterView& view, const Choice& choice) override;
  std::vector<int64_t> read() const;

 private:
  const size_t n_experts_;
  const std::unique_ptr<std::atomic<int64_t>[]> calls_;  // [expert]
};

}  // namespace soli::serve
