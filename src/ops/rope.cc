#include "ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace soli {
namespace {

/// Rows that a thread takes at a time: sines and cosines are dear.
constexpr int64_t kRowsPerRange = 2;

void rotate_head(const Rope& rope, const float* rotations, const float* x, float* y) {
  const auto n_pairs = static_cast<int64_t>(rope.inverse_frequencies.size());
  const bool adjacent = rope.pairing == RopePairing::kAdjacent;
  for (int64_t i = 0; i < n_pairs; ++i) {
    const int64_t first = rope.first + (adjacent ? 2 * i : i);
    const int64_t second = rope.first + (adjacent ? 2 * i + 1 : i + n_pairs);
    const float a = x[first];
    const float b = x[second];
    const float cosine = rotations[2 * i];
    const float sine = rotations[2 * i + 1];
    y[first] = a * cosine - b * sine;
    y[second] = a * sine + b * cosine;
  }
  if (y == x) return;
  std::copy(x, x + rope.first, y);
  const int64_t end = rope.first + 2 * n_pairs;
  std::copy(x + end, x + rope.head_dim, y + end);
}

/// The pair that turns `turns` times in the original context, as a real number.
double pair_of_turns(double turns, double base, int64_t n_rot, const RopeScaling& scaling) {
  return static_cast<double>(n_rot) * std::log(scaling.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(base));
}

/// What angles of pair i are divided by, between 1 and the factor.
class Squeeze {
 public:
  Squeeze(double base, int64_t n_rot, const RopeScaling& scaling) : scaling_(scaling) {
    if (scaling.kind == RopeScaling::Kind::kLinear) return;
    fast_ = std::max(0.0, std::floor(pair_of_turns(scaling.beta_fast, base, n_rot, scaling)));
    slow_ = std::min(static_cast<double>(n_rot - 1),
                     std::ceil(pair_of_turns(scaling.beta_slow, base, n_rot, scaling)));
  }

  double apply(double frequency, size_t i) const {
    if (scaling_.kind == RopeScaling::Kind::kLinear) return frequency / scaling_.factor;
    const double way = (static_cast<double>(i) - fast_) / std::max(0.001, slow_ - fast_);
    const double fast = 1 - std::clamp(way, 0.0, 1.0);
    return frequency * fast + frequency / scaling_.factor * (1 - fast);
  }

 private:
  const RopeScaling& scaling_;
  double fast_ = 0;  // pairs up to here are fast
  double slow_ = 0;  // from here on slow
};

}  // namespace

std::vector<double> Rope::frequencies(double base, int64_t n_rot, std::span<const float> factors,
                                      const RopeScaling& scaling) {
  SOLI_CHECK(n_rot >= 0 && n_rot % 2 == 0, "{} rotated elements", n_rot);
  const int64_t n_pairs = n_rot / 2;
  SOLI_CHECK(factors.empty() || static_cast<int64_t>(factors.size()) == n_pairs, "{} factors for {} pairs",
             factors.size(), n_pairs);
  const Squeeze squeeze(base, n_rot, scaling);
  std::vector<double> result(static_cast<size_t>(n_pairs));
  for (size_t i = 0; i < result.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(n_rot);
    const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
    result[i] = squeeze.apply(std::pow(base, exponent) / factor, i);
  }
  return result;
}

void fill_rotations(OpContext& context, const Rope& rope, std::span<const int64_t> positions,
                    MatrixView<float> rotations) {
  SOLI_CHECK(rotations.rows == static_cast<int64_t>(positions.size()), "{} positions for {} rows",
             positions.size(), rotations.rows);
  SOLI_CHECK(rotations.cols == rotation_floats(rope), "{} numbers for {}", rotations.cols,
             rotation_floats(rope));
  context.team.parallel_for(rotations.rows, kRowsPerRange, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* out = rotations.row(row);
      for (const double frequency : rope.inverse_frequencies) {
        const double angle = static_cast<double>(positions[static_cast<size_t>(row)]) * frequency;
        *out++ = static_cast<float>(std::cos(angle) * rope.magnitude);
        *out++ = static_cast<float>(std::sin(angle) * rope.magnitude);
      }
    }
  });
}

void rotate_heads(const Rope& rope, const float* rotations, std::span<const float> x, float* y) {
  const auto head_dim = static_cast<size_t>(rope.head_dim);
  SOLI_CHECK(head_dim > 0 && x.size() % head_dim == 0, "heads of {} in {}", head_dim, x.size());
  SOLI_CHECK(rope.first >= 0 && rope.first + rotation_floats(rope) <= rope.head_dim,
             "{} rotated elements from {} on in heads of {}", rotation_floats(rope), rope.first, head_dim);
  for (size_t i = 0; i < x.size(); i += head_dim) rotate_head(rope, rotations, x.data() + i, y + i);
}

}  // namespace soli
