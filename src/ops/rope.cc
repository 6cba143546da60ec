#include "ops/rope.h"

#include <algorithm>
#include <cmath>

namespace soli {
namespace {

/// cos and sin of one row's angles, computed in f64 and rounded once: [n_pairs] {cos, sin}.
void fill_rotations(const Rope& rope, int64_t position, float* rotations) {
  for (size_t i = 0; i < rope.inverse_frequencies.size(); ++i) {
    const double angle = static_cast<double>(position) * rope.inverse_frequencies[i];
    rotations[2 * i] = static_cast<float>(std::cos(angle) * rope.magnitude);
    rotations[2 * i + 1] = static_cast<float>(std::sin(angle) * rope.magnitude);
  }
}

void rotate_head(const Rope& rope, const float* rotations, const float* x, float* y) {
  const auto n_pairs = static_cast<int64_t>(rope.inverse_frequencies.size());
  const bool adjacent = rope.pairing == RopePairing::kAdjacent;
  for (int64_t i = 0; i < n_pairs; ++i) {
    const int64_t first = adjacent ? 2 * i : i;
    const int64_t second = adjacent ? 2 * i + 1 : i + n_pairs;
    const float a = x[first];
    const float b = x[second];
    const float cosine = rotations[2 * i];
    const float sine = rotations[2 * i + 1];
    y[first] = a * cosine - b * sine;
    y[second] = a * sine + b * cosine;
  }
  if (y != x) std::copy(x + 2 * n_pairs, x + rope.head_dim, y + 2 * n_pairs);
}

}  // namespace

std::vector<double> Rope::frequencies(double base, int64_t n_rot, std::span<const float> factors,
                                      double scale) {
  SOLI_CHECK(n_rot >= 0 && n_rot % 2 == 0, "{} rotated elements", n_rot);
  const int64_t n_pairs = n_rot / 2;
  SOLI_CHECK(factors.empty() || static_cast<int64_t>(factors.size()) == n_pairs, "{} factors for {} pairs",
             factors.size(), n_pairs);
  std::vector<double> result(static_cast<size_t>(n_pairs));
  for (size_t i = 0; i < result.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(n_rot);
    const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
    result[i] = std::pow(base, exponent) / (factor * scale);
  }
  return result;
}

void rope(OpContext& context, const Rope& rope, std::span<const int64_t> positions, MatrixView<const float> x,
          MatrixView<float> y) {
  const auto n_rot = static_cast<int64_t>(2 * rope.inverse_frequencies.size());
  SOLI_CHECK(rope.head_dim > 0 && x.cols % rope.head_dim == 0, "heads of {} in {}", rope.head_dim, x.cols);
  SOLI_CHECK(y.rows == x.rows && y.cols == x.cols, "{} x {} to {} x {}", x.rows, x.cols, y.rows, y.cols);
  SOLI_CHECK(n_rot <= rope.head_dim, "{} rotated elements in heads of {}", n_rot, rope.head_dim);
  SOLI_CHECK(static_cast<int64_t>(positions.size()) == x.rows, "{} positions for {} rows", positions.size(),
             x.rows);
  auto* rotations = context.scratch.take<float>(x.rows * n_rot);
  context.team.parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row_rotations = rotations + r * n_rot;
      fill_rotations(rope, positions[static_cast<size_t>(r)], row_rotations);
      for (int64_t c = 0; c < x.cols; c += rope.head_dim) {
        rotate_head(rope, row_rotations, x.row(r) + c, y.row(r) + c);
      }
    }
  });
}

}  // namespace soli
