#include "ops/rope.h"

#include <cmath>

#include "kernels/support.h"

namespace soli {
namespace {

const kernels::KernelTable& any_kernels() { return *kernels::select_kernels("").value(); }

TEST(Rope, FrequenciesFollowBaseFactorsAndScale) {
  const std::vector<float> factors = {1, 2, 4, 8};
  const auto f = Rope::frequencies(10000, 8, factors, {.factor = 2});
  ASSERT_EQ(f.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(f[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 8) / factors[i] / 2, 1e-15);
  }
  EXPECT_EQ(Rope::frequencies(10000, 2, {}, {}), std::vector<double>{1.0});
}

TEST(Rope, YarnSqueezesSlowPairsAndLeavesFastOnes) {
  // gpt-oss-20b: base 150,000, 64 rotated elements, 4,096 positions stretched 32 times.
  const RopeScaling yarn = {.kind = RopeScaling::Kind::kYarn, .factor = 32, .original_context = 4096};
  const auto plain = Rope::frequencies(150000, 64, {}, {});
  const auto squeezed = Rope::frequencies(150000, 64, {}, yarn);
  // Pairs that turn 32 times and once in 4,096 positions: 64 ln(4096 / (2 pi n)) / (2 ln 150000) is 8.09 and
  // 17.4, of which the whole pairs around them count.
  for (size_t i = 0; i <= 8; ++i) EXPECT_DOUBLE_EQ(squeezed[i], plain[i]) << i;
  for (size_t i = 9; i < 18; ++i) {
    const double slow = (static_cast<double>(i) - 8) / (18 - 8);
    EXPECT_NEAR(squeezed[i], plain[i] * (1 - slow) + plain[i] / 32 * slow, 1e-15) << i;
  }
  for (size_t i = 18; i < 32; ++i) EXPECT_DOUBLE_EQ(squeezed[i], plain[i] / 32) << i;
}

void expect_rotated(RopePairing pairing, int64_t head_dim, int64_t n_rot, double magnitude,
                    int64_t first = 0) {
  ThreadTeam team(3);
  OpContext context{team, any_kernels()};
  const Rope spec = {.pairing = pairing,
                     .head_dim = head_dim,
                     .first = first,
                     .inverse_frequencies = Rope::frequencies(10000, n_rot, {}, {}),
                     .magnitude = magnitude};
  const int64_t n_heads = 3;
  const std::vector<int64_t> positions = {0, 1, 7, 100000};
  const int64_t cols = n_heads * head_dim;
  const auto x = test::random_floats(1, 4 * cols);
  std::vector<float> rotations(static_cast<size_t>(4 * n_rot));
  fill_rotations(context, spec, positions, {rotations.data(), 4, n_rot});
  std::vector<float> y(x.size());
  auto in_place = x;
  for (int64_t row = 0; row < 4; ++row) {
    const std::span<const float> from(x.data() + row * cols, static_cast<size_t>(cols));
    rotate_heads(spec, rotations.data() + row * n_rot, from, y.data() + row * cols);
    float* both = in_place.data() + row * cols;
    rotate_heads(spec, rotations.data() + row * n_rot, {both, static_cast<size_t>(cols)}, both);
  }
  EXPECT_EQ(in_place, y);
  for (int64_t i = 0; i < 4 * cols; ++i) {
    const int64_t d = i % head_dim - first;
    const int64_t head = i - d;
    if (d < 0 || d >= n_rot) {
      EXPECT_EQ(y[static_cast<size_t>(i)], x[static_cast<size_t>(i)]) << "not rotated";
      continue;
    }
    const bool adjacent = pairing == RopePairing::kAdjacent;
    const int64_t pair = adjacent ? d / 2 : d % (n_rot / 2);
    const bool second = adjacent ? d % 2 == 1 : d >= n_rot / 2;
    const double a = x[static_cast<size_t>(head + (adjacent ? 2 * pair : pair))];
    const double b = x[static_cast<size_t>(head + (adjacent ? 2 * pair + 1 : pair + n_rot / 2))];
    const double angle = static_cast<double>(positions[static_cast<size_t>(i / cols)]) *
                         spec.inverse_frequencies[static_cast<size_t>(pair)];
    const double expected =
        second ? a * std::sin(angle) + b * std::cos(angle) : a * std::cos(angle) - b * std::sin(angle);
    EXPECT_NEAR(y[static_cast<size_t>(i)], magnitude * expected, 1e-6) << i;
  }
}

TEST(Rope, RotatesAdjacentElements) { expect_rotated(RopePairing::kAdjacent, 24, 24, 1); }
TEST(Rope, RotatesHalves) { expect_rotated(RopePairing::kHalves, 80, 80, 1); }
TEST(Rope, RotatesAPartOfTheHead) {
  expect_rotated(RopePairing::kAdjacent, 24, 10, 1);
  expect_rotated(RopePairing::kHalves, 24, 10, 1);
}
TEST(Rope, RotatesTheEndOfTheHead) {
  expect_rotated(RopePairing::kAdjacent, 24, 10, 1, 14);
  expect_rotated(RopePairing::kHalves, 24, 10, 1, 3);
}
TEST(Rope, AppliesTheMagnitude) { expect_rotated(RopePairing::kHalves, 16, 16, 1.25); }

}  // namespace
}  // namespace soli
