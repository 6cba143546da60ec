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
    rms_norm(context, rows_a, weight, 1e-6F, {norm.data(), 9, 33});
    add(context, rows_a, rows_b, {sum.data(), 9, 33});
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
  std::vector<float> sum(x.size());
  std::vector<float> expected(x.size());
  add(context, {x.data(), 5, 33}, {y.data(), 5, 33}, {sum.data(), 5, 33});
  rms_norm(context, {sum.data(), 5, 33}, weight, 1e-6F, {expected.data(), 5, 33});
  std::vector<float> normed(x.size());
  add_and_norm(context, {x.data(), 5, 33}, {y.data(), 5, 33}, weight, 1e-6F, {normed.data(), 5, 33});
  EXPECT_EQ(x, sum);
  EXPECT_EQ(normed, expected);
}

TEST_P(Elementwise, NoRowsIsNoWork) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam()};
  const std::vector<float> weight(8, 1.0F);
  float nothing = 3;
  rms_norm(context, {&nothing, 0, 8}, weight, 1e-6F, {&nothing, 0, 8});
  add(context, {&nothing, 0, 8}, {&nothing, 0, 8}, {&nothing, 0, 8});
  activate_rows(context, Activation::kSwiGlu, {&nothing, 0, 8}, {&nothing, 0, 8}, {&nothing, 0, 8});
  EXPECT_EQ(nothing, 3);
}

}  // namespace
}  // namespace soli
