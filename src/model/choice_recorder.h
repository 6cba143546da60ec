#pragma once

// Who keeps what requests choose, and so has to know of requests, and of tokens that are not computed.

#include <cstdint>
#include <span>

#include "model/hooks.h"

namespace soli {

/// What a token chose when it was computed, for another request or before: its keys and values are taken
/// from a cache, and its choice with them. Valid during the call only.
struct KeptChoice {
  RequestId request = 0;
  int64_t position = 0;
  int32_t token = 0;
  std::span<const uint32_t> layer_begin;  // [n_moe_layers + 1]: those of MoE layer l begin at layer_begin[l]
  std::span<const uint16_t> ids;
  std::span<const float> weights;
};

/// Called on the engine's thread, between ops. A position of a request may come twice: what is computed again
/// stands in place of what was before. Where a step fails, its rows have passed some of the layers only.
class ChoiceRecorder : public RouterObserver {
 public:
  /// Once, before all else of the request.
  virtual void on_request(RequestId request, int64_t n_prompt, const RoutingPolicy& policy) = 0;
  virtual void on_kept(const KeptChoice& choice) = 0;
  /// Before each step: who else looks on, or null; on_route() lets it see all too.
  virtual void begin_step(RouterObserver* next) = 0;
};

}  // namespace soli
