#include "ops/rope.h"

#include <algorithm>
#include <cmath>

namespace soli {
namespace {

/// Rows that a thread takes at a time: sines and cosines are dear.
constexpr int64_t kRowsPerRange = 2;

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
  SOLI_CHECK(rotation_floats(rope) <= rope.head_dim, "{} rotated elements in heads of {}",
             rotation_floats(rope), head_dim);
  for (size_t i = 0; i < x.size(); i += head_dim) rotate_head(rope, rotations, x.data() + i, y + i);
}

}  // namespace soli
