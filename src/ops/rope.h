#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "ops/context.h"

namespace soli {

/// Which elements of a head rotate together.
enum class RopePairing {
  kAdjacent,  // (2i, 2i + 1)
  kHalves,    // (i, i + n_rot / 2)
};

/// How positions are squeezed into the context that a model was trained with at first.
struct RopeScaling {
  enum class Kind {
    kLinear,  // by the factor; 1: not at all
    kYarn,    // slow pairs by the factor, fast ones not at all (Peng et al. 2023, "YaRN", section 3.2)
  };
  Kind kind = Kind::kLinear;
  double factor = 1;
  double original_context = 0;  // positions; the others are of YaRN too
  double beta_fast = 32;        // a pair that turns as often in the original context is fast
  double beta_slow = 1;         // and one that turns no more often than that is slow
};

/// Rotary position embedding (Su et al. 2021) of one model: angle of pair i at position p is p *
/// inverse_frequencies[i].
struct Rope {
  RopePairing pairing = RopePairing::kHalves;
  int64_t head_dim = 0;
  int64_t first = 0;                        // the element of a head at which those that rotate begin
  std::vector<double> inverse_frequencies;  // [n_rot / 2]; elements beyond first + n_rot stay as they are
  double magnitude = 1;                     // factor on cos and sin (YaRN, longrope)

  /// base^(-2i / n_rot) / factors[i], scaled; `factors` is empty (all 1) or [n_rot / 2].
  static std::vector<double> frequencies(double base, int64_t n_rot, std::span<const float> factors,
                                         const RopeScaling& scaling);
};

/// Numbers of a row of rotations.
inline int64_t rotation_floats(const Rope& rope) {
  return static_cast<int64_t>(2 * rope.inverse_frequencies.size());
}

/// {cos, sin} of every pair's angle at the rows' positions [rows], computed in f64 and rounded once:
/// [rows][rotation_floats]. Once per step, for all layers.
void fill_rotations(OpContext& context, const Rope& rope, std::span<const int64_t> positions,
                    MatrixView<float> rotations);

/// Rotates every head of one row, x [n_heads * head_dim], by its row of rotations. y may be x.
void rotate_heads(const Rope& rope, const float* rotations, std::span<const float> x, float* y);

}  // namespace soli
