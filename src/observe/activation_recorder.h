#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/hooks.h"
#include "observe/block_ring.h"

namespace soli {

/// One call of one expert, with its routing weight.
struct ExpertCall {
  int32_t expert = 0;
  float weight = 0;
};

/// What one token chose in one layer.
struct RecordedRoute {
  RequestId request = 0;
  int64_t position = 0;
  int32_t token = 0;
  int32_t layer = 0;            // among all layers
  float gate_entropy_bits = 0;  // entropy of the whole router distribution
  int32_t n_calls = 0;
  int64_t first_call = 0;  // its calls are [first_call, first_call + n_calls) of those that stand beside it
};

/// The recorded routes of one request, by position, then by layer; one route per position and layer.
struct RequestChoices {
  std::vector<RecordedRoute> routes;
  std::vector<ExpertCall> calls;
  int64_t n_dropped = 0;  // routes, of any request, that the recorder overwrote since its last clear()

  std::span<const ExpertCall> calls_of(const RecordedRoute& route) const {
    return std::span(calls).subspan(static_cast<size_t>(route.first_call),
                                    static_cast<size_t>(route.n_calls));
  }
};

/// Entropy in bits of scores taken as a distribution: divided by their sum, which matters for sigmoid gating
/// only, where each expert has a score of its own. Scores that are not positive, or below the least normal
/// float, count as 0; 0 if all do. Right to some 1e-6 bits, and cheap: some 2 ns per score.
double gate_entropy_bits(std::span<const float> scores);

/// Records what every row chose into a ring of bounded size; when it is full, the oldest routes are
/// overwritten and counted. Memory grows with use, up to some 48 bytes per unit of capacity, a block at a
/// time (block_ring.h). One thread at a time: read between steps.
class ActivationRecorder : public RouterObserver {
 public:
  /// Holds some 43,000 tokens of a model with 48 MoE layers and 8 experts per token, in 230 MB.
  static constexpr int64_t kDefaultCapacity = int64_t{1} << 24;

  /// Holds at most `capacity` calls of experts, and as many routes; capacity > 0.
  explicit ActivationRecorder(int64_t capacity = kDefaultCapacity);

  /// Copies every row's choice, also one of no experts, as a policy may make it. A row that could not choose,
  /// since its logits were not finite, is not recorded.
  void on_route(const RouterView& view, const Choice& choice) override;

  /// A copy of what is recorded of one request. Where a position was computed twice the later choice counts.
  RequestChoices choices_of(RequestId request) const;

  int64_t n_routes() const { return routes_.size(); }
  /// Routes that were overwritten, or too long for the ring, since the last clear().
  int64_t n_dropped() const { return n_dropped_; }
  int64_t capacity() const { return routes_.capacity(); }
  /// Forgets all routes and the count of drops; keeps the memory.
  void clear();

 private:
  void drop_oldest();
  void append(const RecordedRoute& route, std::span<const int32_t> ids, std::span<const float> weights);

  BlockRing<RecordedRoute> routes_;
  BlockRing<ExpertCall> calls_;  // of the routes, in their order
  int64_t n_dropped_ = 0;
};

}  // namespace soli
