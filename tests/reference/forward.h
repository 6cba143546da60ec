#pragma once

// A model's forward in double precision, one token after the other, written from what GGUF files mean and
// from nothing of the engine: its oracle.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reference/experts.h"
#include "reference/tensor_file.h"

namespace soli::reference {

/// By layer and position.
using Choices = std::map<std::pair<int64_t, int64_t>, Choice>;

struct Output {
  std::vector<Vector> logits;  // [positions][vocab]
  Choices choices;             // of MoE layers
};

/// Runs `tokens` at positions 0, 1, ... of a context of `context_length`. Where `preferred` has a choice that
/// differs from the reference's own within rounding (route()), the reference follows it.
Output forward(const TensorFile& file, const std::vector<int32_t>& tokens, int64_t context_length,
               const Choices& preferred = {});

}  // namespace soli::reference
