#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "base/result.h"
#include "ops/moe_ffn.h"

namespace soli {

/// Where the bytes of the routed experts live. One engine's thread streams at a time.
class ExpertStore {
 public:
  /// Computes with the experts of a wave; leases are valid during the call.
  using UseWave = FunctionRef<void(std::span<const ExpertLease> wave)>;

  virtual ~ExpertStore() = default;

  /// What a step wants of a layer.
  struct Demand {
    int64_t layer = 0;  // among all layers
    int64_t n_tokens = 0;
    const RowsByExpert& grouped;  // its calls, by expert
  };

  /// Yields every expert of the demand once, ready to multiply, in one or several waves and any order. A
  /// lease's group is its expert's in `grouped`. Fails when an expert cannot be had (kIo, kMalformed); some
  /// waves may have been used by then.
  virtual Status stream(const Demand& demand, UseWave use) = 0;

  /// How often an expert has been leased since the start. Counted; any thread.
  virtual int64_t reads(int64_t layer, int64_t expert) const = 0;
};

}  // namespace soli
