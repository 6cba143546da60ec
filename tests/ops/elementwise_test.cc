#include "ops/elementwise.h"

#include "kernels/support.h"

namespace soli {
namespace {

using test::random_floats;

class Elementwise : public testing::TestWithParam<const kernels::KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, Elementwise, testing::ValuesIn(test::all_tables()), test::isa_name);

TEST_P(Elementwise, RowsWithStridesAreIndependentOfThreads) {
  const auto a = random_floats(1, 9 * 50);
  const auto b = random_floats(2, 9 * 40);
  const auto weight = random_floats(3, 33);
  const MatrixView<const float> rows_a{a.data(), 9, 33, 50};
  const MatrixView<const float> rows_b{b.data(), 9, 33, 40};
  for (int n_threads : {1, 3}) {
    ThreadTeam team(n_threads);
    OpContext context{team, *GetParam()};
    std::vector<float> norm(9 * 33), sum(9 * 33), gated(9 * 33), expected(33);
    rms_norm(context, rows_a, {weight, {}, 1e-6F}, {norm.data(), 9, 33});
    for (int64_t r = 0; r < 9; ++r) std::copy_n(rows_a.row(r), 33, sum.data() + r * 33);
    add_scaled(context, {sum.data(), 9, 33}, 1, rows_b);
    activate_rows(context, Activation::kSwiGlu, rows_a, rows_b, {gated.data(), 9, 33});
    for (int64_t r = 0; r < 9; ++r) {
      GetParam()->rms_norm(rows_a.row(r), weight.data(), 33, 1e-6F, expected.data());
      EXPECT_EQ(std::memcmp(norm.data() + r * 33, expected.data(), 33 * 4), 0);
      GetParam()->add(rows_a.row(r), rows_b.row(r), 33, expected.data());
      EXPECT_EQ(std::memcmp(sum.data() + r * 33, expected.data(), 33 * 4), 0);
      GetParam()->swiglu(rows_a.row(r), rows_b.row(r), 33, expected.data());
      EXPECT_EQ(std::memcmp(gated.data() + r * 33, expected.data(), 33 * 4), 0);
    }
  }
}

TEST_P(Elementwise, AddAndNormIsOneAfterTheOther) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam()};
  auto x = random_floats(4, 5 * 33);
  const auto y = random_floats(5, 5 * 33);
  const auto weight = random_floats(6, 33);
  const auto bias = random_floats(7, 33);
  for (const float scale : {1.0F, 0.25F}) {
    const RmsNorm norm = {weight, scale == 1 ? std::span<const float>() : bias, 1e-6F};
    auto sum = x;
    std::vector<float> expected(x.size());
    add_scaled(context, {sum.data(), 5, 33}, scale, {y.data(), 5, 33});
    rms_norm(context, {sum.data(), 5, 33}, norm, {expected.data(), 5, 33});
    std::vector<float> normed(x.size());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(sum[i], x[i] + scale * y[i], 1e-6);
    add_and_norm(context, {x.data(), 5, 33}, scale, {y.data(), 5, 33}, norm, {normed.data(), 5, 33});
    EXPECT_EQ(x, sum);
    EXPECT_EQ(normed, expected);
  }
}

TEST_P(Elementwise, ANormMayHaveABias) {
  ThreadTeam team(1);
  OpContext context{team, *GetParam()};
  const auto x = random_floats(4, 33);
  const auto weight = random_floats(6, 33);
  const auto bias = random_floats(7, 33);
  std::vector<float> plain(33), biased(33);
  rms_norm(context, {x.data(), 1, 33}, {weight, {}, 1e-6F}, {plain.data(), 1, 33});
  rms_norm(context, {x.data(), 1, 33}, {weight, bias, 1e-6F}, {biased.data(), 1, 33});
  for (size_t i = 0; i < 33; ++i) EXPECT_EQ(biased[i], plain[i] + bias[i]);
}

TEST_P(Elementwise, ScalingByOneChangesNothing) {
  ThreadTeam team(1);
  OpContext context{team, *GetParam()};
  const auto x = random_floats(4, 33);
  auto y = x;
  scale_rows(context, 1, {y.data(), 3, 11});
  EXPECT_EQ(x, y);
  scale_rows(context, 3, {y.data(), 3, 11});
  for (size_t i = 0; i < 33; ++i) EXPECT_EQ(y[i], 3 * x[i]);
}

TEST_P(Elementwise, NoRowsIsNoWork) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam()};
  const std::vector<float> weight(8, 1.0F);
  float nothing = 3;
  rms_norm(context, {&nothing, 0, 8}, {weight, {}, 1e-6F}, {&nothing, 0, 8});
  add_scaled(context, {&nothing, 0, 8}, 1, {&nothing, 0, 8});
  activate_rows(context, Activation::kSwiGlu, {&nothing, 0, 8}, {&nothing, 0, 8}, {&nothing, 0, 8});
  EXPECT_EQ(nothing, 3);
}

}  // namespace
}  // namespace soli
