#pragma once

// Rotary position embedding (Su et al. 2021) and how it is stretched over longer contexts: linearly, by YaRN
// (Peng et al. 2023), or by factors of its frequencies (longrope).

#include <cstdint>

#include "reference/tensor_file.h"

namespace soli::reference {

struct Rope {
  bool adjacent_pairs = false;
  Vector frequencies = {};  // [pairs] radians per position
  double magnitude = 1;     // factor on cosine and sine
};

/// `n_rotated` elements of a head rotate. longrope has one set of factors for contexts up to
/// original_context_length and one for longer ones: by the size of the context, not by the position.
Rope make_rope(const TensorFile& file, int64_t n_rotated, bool adjacent_pairs, int64_t context_length);

/// Rotates elements [begin, begin + 2 pairs) of a head.
void rotate(const Rope& rope, int64_t position, int64_t begin, Vector& head);

}  // namespace soli::reference
