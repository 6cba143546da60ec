#include "ops/matmul.h"

#include <limits>

#include "kernels/support.h"

namespace soli {
namespace {

using test::random_floats;
using test::random_matrix;
using test::same_bits;
using test::TestMatrix;

class Matmul : public testing::TestWithParam<const kernels::KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, Matmul, testing::ValuesIn(test::all_tables()), test::isa_name);

Linear linear_of(const TestMatrix& m, std::span<const float> bias = {}) {
  return {.weight = {m.type, m.packed.data(), m.rows, m.cols}, .bias = bias, .slot = 0};
}

std::vector<float> run_linear(OpContext& context, const Linear& map, const std::vector<float>& x,
                              int64_t n_tokens) {
  std::vector<float> y(static_cast<size_t>(n_tokens * map.weight.rows), -1.0F);
  linear(context, map, {x.data(), n_tokens, map.weight.cols}, {y.data(), n_tokens, map.weight.rows});
  return y;
}

TEST_P(Matmul, BatchThreadsAndGroupingDoNotChangeARow) {
  const int64_t n_tokens = 70;
  const int64_t cols = 256;
  for (uint32_t type : {0U, 8U, 12U}) {
    for (ActivationPrecision activations : {ActivationPrecision::kF32, ActivationPrecision::kQ8}) {
      const TestMatrix a = random_matrix(*GetParam()->find(type), 100, cols, 1);
      const TestMatrix b = random_matrix(*GetParam()->find(0), 17, cols, 2);
      const auto bias = random_floats(3, 100);
      const Linear map_a = linear_of(a, bias);
      const Linear map_b = linear_of(b);
      const auto x = random_floats(4, n_tokens * cols);
      ThreadTeam one(1);
      OpContext plain{one, *GetParam(), activations};
      const auto expected_a = run_linear(plain, map_a, x, n_tokens);
      const auto expected_b = run_linear(plain, map_b, x, n_tokens);
      for (int64_t t : {0, 33, 69}) {
        const std::vector<float> row(x.begin() + t * cols, x.begin() + (t + 1) * cols);
        const std::vector<float> expected(expected_a.begin() + t * 100, expected_a.begin() + (t + 1) * 100);
        EXPECT_TRUE(same_bits(run_linear(plain, map_a, row, 1), expected)) << t;
      }
      for (int n_threads = 1; n_threads <= 4; ++n_threads) {
        ThreadTeam team(n_threads);
        OpContext context{team, *GetParam(), activations};
        std::vector<float> ya(expected_a.size());
        std::vector<float> yb(expected_b.size());
        const Linear* maps[] = {&map_a, &map_b};
        const MatrixView<float> outputs[] = {{ya.data(), n_tokens, 100}, {yb.data(), n_tokens, 17}};
        linear_group(context, maps, {x.data(), n_tokens, cols}, outputs);
        EXPECT_TRUE(same_bits(ya, expected_a)) << n_threads;
        EXPECT_TRUE(same_bits(yb, expected_b)) << n_threads;
      }
    }
  }
}

/// One row of one head of linear_per_head(), by linear().
TEST_P(Matmul, AMapOfEachHeadIsThatMap) {
  const int64_t n_heads = 3;
  const int64_t n_tokens = 101;
  for (const auto& [rows, cols] : {std::pair{20, 64}, {64, 32}, {1, 320}}) {
    std::vector<TestMatrix> matrices;
    std::vector<Linear> heads;
    for (int64_t h = 0; h < n_heads; ++h) {
      matrices.push_back(random_matrix(*GetParam()->find(8), rows, cols, static_cast<uint64_t>(h)));
    }
    for (const TestMatrix& matrix : matrices) heads.push_back(linear_of(matrix));
    const int64_t x_stride = cols + 5;
    const auto x = random_floats(5, n_tokens * n_heads * x_stride);
    for (const int n_threads : {1, 3}) {
      ThreadTeam team(n_threads);
      OpContext context{team, *GetParam(), ActivationPrecision::kQ8};
      std::vector<float> y(static_cast<size_t>(n_tokens * n_heads * (rows + 2)), 7.0F);
      linear_per_head(context, heads, {x.data(), n_tokens * n_heads, cols, x_stride},
                      {y.data(), n_tokens * n_heads, rows, rows + 2});
      for (int64_t i = 0; i < n_tokens * n_heads; ++i) {
        const std::vector<float> row(x.begin() + i * x_stride, x.begin() + i * x_stride + cols);
        const auto expected = run_linear(context, heads[static_cast<size_t>(i % n_heads)], row, 1);
        const float* ours = y.data() + i * (rows + 2);
        ASSERT_EQ(std::memcmp(ours, expected.data(), expected.size() * sizeof(float)), 0) << i;
        EXPECT_EQ(ours[rows], 7.0F) << "between rows";
      }
    }
  }
}

TEST_P(Matmul, NoTokensIsNoWork) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam(), ActivationPrecision::kQ8};
  const TestMatrix m = random_matrix(*GetParam()->find(8), 20, 64, 5);
  EXPECT_TRUE(run_linear(context, linear_of(m), {}, 0).empty());
}

TEST_P(Matmul, AddsTheBiasAndHonoursStrides) {
  ThreadTeam team(1);
  OpContext context{team, *GetParam()};
  const TestMatrix m = random_matrix(*GetParam()->find(0), 20, 64, 6);
  const auto bias = random_floats(7, 20);
  const auto x = random_floats(8, 3 * 80);
  std::vector<float> y(3 * 25, 7.0F);
  linear(context, linear_of(m, bias), {x.data(), 3, 64, 80}, {y.data(), 3, 20, 25});
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t r = 0; r < 20; ++r) {
      double sum = bias[static_cast<size_t>(r)];
      for (int64_t k = 0; k < 64; ++k)
        sum += double{m.values[static_cast<size_t>(r * 64 + k)]} * x[static_cast<size_t>(t * 80 + k)];
      EXPECT_NEAR(y[static_cast<size_t>(t * 25 + r)], sum, 1e-5);
    }
    for (int64_t r = 20; r < 25; ++r) EXPECT_EQ(y[static_cast<size_t>(t * 25 + r)], 7.0F) << "between rows";
  }
}

TEST_P(Matmul, OutliersStayFiniteAndNaNStaysInItsRow) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam(), ActivationPrecision::kQ8};
  const int64_t cols = 320;
  const TestMatrix m = random_matrix(*GetParam()->find(8), 40, cols, 9);
  auto x = random_floats(10, 5 * cols);
  x[3] = 1e4F;
  x[2 * cols + 7] = -1e4F;
  const auto clean = run_linear(context, linear_of(m), x, 5);
  for (float v : clean) EXPECT_TRUE(std::isfinite(v));
  for (float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto poisoned = x;
    poisoned[1 * cols + 300] = poison;
    const auto y = run_linear(context, linear_of(m), poisoned, 5);
    for (size_t i = 0; i < y.size(); ++i) {
      if (i / 40 == 1) {
        EXPECT_TRUE(std::isnan(y[i]));
      } else {
        EXPECT_EQ(std::memcmp(&y[i], &clean[i], 4), 0);
      }
    }
  }
}

TEST_P(Matmul, EightBitActivationsDiffer) {
  ThreadTeam team(1);
  OpContext exact{team, *GetParam(), ActivationPrecision::kF32};
  OpContext rounded{team, *GetParam(), ActivationPrecision::kQ8};
  const TestMatrix m = random_matrix(*GetParam()->find(8), 16, 2048, 11);
  const auto x = random_floats(12, 2048);
  const auto a = run_linear(exact, linear_of(m), x, 1);
  const auto b = run_linear(rounded, linear_of(m), x, 1);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(a[i] - b[i], 2);
    norm += std::pow(a[i], 2);
  }
  EXPECT_GT(difference, 0);
  EXPECT_LT(std::sqrt(difference / norm), 0.02);
}

TEST_P(Matmul, DequantizeRowFindsEveryRow) {
  for (const kernels::WeightKernels& type : GetParam()->weights) {
    const TestMatrix m = random_matrix(type, 35, 256, 13);
    for (int64_t r = 0; r < 35; ++r) {
      std::vector<float> row(256);
      dequantize_row({m.type, m.packed.data(), m.rows, m.cols}, r, row);
      EXPECT_EQ(std::memcmp(row.data(), m.values.data() + r * 256, 1024), 0) << type.name << " row " << r;
    }
  }
}

}  // namespace
}  // namespace soli
