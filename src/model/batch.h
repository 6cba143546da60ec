#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/routing_policy.h"
#include "model/steering.h"
#include "ops/attention.h"

namespace soli {

using RequestId = uint64_t;

/// One position of one sequence in a step.
struct BatchRow {
  RequestId request = 0;  // whose row it is, for hooks and errors
  int64_t position = 0;   // in its sequence, from 0
  int32_t token = 0;
  bool want_logits = false;                // only these rows go through the output head
  bool want_hidden = false;                // its final hidden state; of a row that wants no logits
  int32_t adapter = -1;                    // number of an adapter on the model's Linears, -1: none
  const RoutingPolicy* policy = nullptr;   // never null in a planned batch
  std::span<std::byte* const> pages = {};  // the sequence's KV pages, up to this position
  const Steering* steering = nullptr;      // what the policy asks for beyond k and threshold of all layers
  /// The steering state beside the pages (model/steering_state.h); empty where the engine keeps none.
  std::span<std::byte* const> states = {};
};

/// The rows of one step: prefill chunks and decode rows of many sequences, mixed. Rows of one sequence stand
/// in ascending order of position.
struct Batch {
  std::vector<BatchRow> rows;

  int64_t n_rows() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace soli
