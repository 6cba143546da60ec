#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/hooks.h"
#include "observe/routing_profile.h"

namespace soli {

/// Takes what the rows of some requests chose to their windows. On the thread that steps.
class ProfileCollector final : public RouterObserver {
 public:
  explicit ProfileCollector(const ProfileShape& shape);

  /// From now on the rows of a request go to a window, borrowed until end(): those from `first_position` on,
  /// which leaves out the token that begins every text.
  void begin(RequestId request, RoutingWindow& window, int64_t first_position);
  void end(RequestId request) { windows_.erase(request); }

  void on_route(const RouterView& view, const Choice& choice) override;

 private:
  struct Target {
    RoutingWindow* window = nullptr;
    int64_t first_position = 0;
  };
  void add_row(const RouterView& view, const Choice& choice, int64_t row, RoutingWindow& window);

  std::vector<size_t> place_of_layer_;  // [layers up to the last with experts]
  std::unordered_map<RequestId, Target> windows_;
  std::vector<ExpertCall> calls_;
  std::vector<float> logits_;
};

/// The k-th largest of some logits minus the (k+1)-th; nothing where there is none, or where that expert is
/// masked (model/steering.h). Reorders the logits.
std::optional<double> margin_below(std::span<float> logits, int64_t k);

}  // namespace soli
