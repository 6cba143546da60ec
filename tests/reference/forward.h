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

struct FfnInput {
  Vector residual;
  Vector normed;  // what its matrices meet
};

struct Output {
  std::vector<Vector> logits;                                  // [positions][vocab]
  Choices choices;                                             // of MoE layers
  std::map<std::pair<int64_t, int64_t>, FfnInput> ffn_inputs;  // by layer and position
};

/// Runs `tokens` at positions 0, 1, ... of a context of `context_length`. Where `preferred` has a choice that
/// differs from the reference's own within rounding (route()), the reference follows it.
Output forward(const TensorFile& file, const std::vector<int32_t>& tokens, int64_t context_length,
               const Choices& preferred = {});

/// Logits of a vector that is taken for the last hidden state: the last norm and the output head.
Vector head_of(const TensorFile& file, const Vector& hidden);
/// The factor on what a sub-layer adds.
double residual_scale(const TensorFile& file);

}  // namespace soli::reference
