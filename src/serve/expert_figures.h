#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/spec.h"
#include "ops/expert_meter.h"

namespace soli::serve {

/// Of whom /metrics tells calls and busy time.
enum class ExpertMetrics {
  kNone,     // nobody
  kExperts,  // each expert, summed over the layers
  kLayers,   // each expert of each layer that has experts
};

/// One series of each metric of experts.
struct ExpertFigure {
  std::optional<int64_t> layer;  // among all layers; absent: over all of them
  int64_t expert = 0;
  ExpertWork work;
};

/// Measures the experts of a model and tells what /metrics shows of them.
class ExpertFigures {
 public:
  /// Series of one metric at most, so that the page stays of a size that can be scraped.
  static constexpr int64_t kMaxSeries = 20'000;

  /// Null for a dense model, and for kNone where nobody else wants them `measured`. Fails with kLimit where
  /// there would be too many series.
  static Result<std::unique_ptr<ExpertFigures>> create(const ModelSpec& spec, ExpertMetrics metrics,
                                                       bool measured = false);

  /// For the executor of the experts.
  ExpertMeter& meter() { return meter_; }
  /// In ascending order of layers, then experts; nothing for kNone. Any thread.
  std::vector<ExpertFigure> read() const;

 private:
  ExpertFigures(const ModelSpec& spec, ExpertMetrics metrics);

  const bool shown_;
  std::vector<int64_t> layers_;  // that are told apart; empty: none
  ExpertMeter meter_;
};

}  // namespace soli::serve
