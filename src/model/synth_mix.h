#pragma once

// Mixtures of weight types under the names that published files have them: llama.cpp's quantiser gives some
// matrices more bits than the rest, and which ones is part of what a name like Q4_K_M says.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/family.h"

namespace soli {

/// A rule that takes some layers out of `n_layers`.
using LayerRule = bool (*)(int64_t layer, int64_t n_layers);

/// Which weight type (GgmlTypeId) each matrix has. Norms and the router are F32 in all of them.
struct TypeMix {
  std::string_view name;
  uint32_t base;            // of what no other field names
  uint32_t routed_experts;  // of the routed experts
  uint32_t head;            // of the output head, or of the embedding that it is tied to
  uint32_t raised;          // of the matrices that the two rules name
  LayerRule raises_value;   // layers whose value projection is raised
  LayerRule raises_down;    // layers whose down projections are, experts' too
  /// Models of exactly 8 experts spend more on attention, which is a small part of them.
  uint32_t key_value_of_8;
  uint32_t attention_output_of_8;
};

/// The mixture of this name ("Q4_K_M", in any case), or null.
const TypeMix* find_type_mix(std::string_view name);
std::vector<std::string_view> type_mix_names();

/// The weight type of a matrix of `layer` that belongs to `part` and has `rows`. `tied`: the model has no
/// output head of its own.
uint32_t type_in_mix(const TypeMix& mix, const ModelSpec& spec, bool tied, Part part, Dim rows,
                     int64_t layer);

}  // namespace soli
