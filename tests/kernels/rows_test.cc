// The kernels on single rows: their definitions in f64, hostile values, and equal bits on all ISAs.

#include <limits>
#include <numeric>

#include "kernels/half.h"
#include "kernels/support.h"

namespace soli {
namespace {

using kernels::half;
using kernels::KernelTable;
using test::random_floats;
using test::same_bits;

constexpr int64_t kLengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 100, 257};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class Rows : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, Rows, testing::ValuesIn(test::all_tables()), test::isa_name);

TEST_P(Rows, RmsNormDividesByTheRootMeanSquare) {
  for (int64_t n : kLengths) {
    const auto x = random_floats(1, n, 3);
    const auto w = random_floats(2, n);
    std::vector<float> y(x.size());
    GetParam()->rms_norm(x.data(), w.data(), n, 1e-5F, y.data());
    double squares = 0;
    for (float v : x) squares += double{v} * v;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * w[i];
      EXPECT_NEAR(y[i], expected, 5e-7 * std::abs(expected));
    }
    auto in_place = x;
    GetParam()->rms_norm(in_place.data(), w.data(), n, 1e-5F, in_place.data());
    EXPECT_TRUE(same_bits(in_place, y));
  }
}

TEST_P(Rows, AllFiniteLooksAtTheRowAlone) {
  for (const float bad : {kInfinity, -kInfinity, kNaN}) {
    for (int64_t n = 1; n <= 33; ++n) {
      std::vector<float> x(static_cast<size_t>(n + 17), bad);  // what lies behind the row is another's
      std::fill_n(x.begin(), n, std::numeric_limits<float>::max());
      EXPECT_TRUE(GetParam()->all_finite(x.data(), n)) << n;
      for (int64_t i = 0; i < n; ++i) {
        x[static_cast<size_t>(i)] = bad;
        EXPECT_FALSE(GetParam()->all_finite(x.data(), n)) << i << " of " << n;
        x[static_cast<size_t>(i)] = 1;
      }
    }
  }
}

TEST_P(Rows, SoftmaxIsTheDefinition) {
  for (int64_t n : kLengths) {
    const auto x = random_floats(3, n, 10);
    auto y = x;
    GetParam()->softmax(y.data(), n);
    const double max = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (float v : x) sum += std::exp(v - max);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(x[i] - max) / sum;
      // The difference to the maximum is rounded, which moves the exponent by 2^-24 of it.
      EXPECT_NEAR(y[i], expected, (1e-6 + 0x1p-24 * (max - x[i])) * expected);
    }
  }
}

TEST_P(Rows, SoftmaxTakesMaskedAndLargeScores) {
  std::vector<float> x = {-kInfinity, 1e30F, 1e30F, -1e30F};
  GetParam()->softmax(x.data(), 4);
  EXPECT_EQ(x, (std::vector<float>{0, 0.5F, 0.5F, 0}));
}

/// e^x through the softmax of {0, x} for negative x, whose first element is 1 / (1 + e^x).
TEST_P(Rows, SigmoidIsAccurateOverItsRange) {
  std::vector<float> x;
  for (double v = -110; v < 40; v += 0.01) x.push_back(static_cast<float>(v));
  std::vector<float> y(x.size());
  GetParam()->sigmoid(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = 1 / (1 + std::exp(-double{x[i]}));
    if (x[i] < -88) {
      EXPECT_NEAR(y[i], expected, 1e-38) << x[i];  // e^-x no longer fits
    } else {
      EXPECT_NEAR(y[i], expected, 3e-7 * expected) << x[i];
    }
  }
}

TEST_P(Rows, SigmoidAndSwigluAtTheEnds) {
  const std::vector<float> x = {-kInfinity, -1000, 0, 1000, kInfinity, kNaN};
  std::vector<float> y(6);
  GetParam()->sigmoid(x.data(), 6, y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0.5F);
  EXPECT_EQ(y[3], 1);
  EXPECT_EQ(y[4], 1);
  EXPECT_TRUE(std::isnan(y[5])) << "a NaN must not disappear";
  const std::vector<float> up(6, 2.0F);
  GetParam()->swiglu(x.data(), up.data(), 6, y.data());
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 2000);
  EXPECT_TRUE(std::isnan(y[5]));
}

TEST_P(Rows, SwigluAddAndAddScaled) {
  for (int64_t n : kLengths) {
    const auto a = random_floats(4, n, 4);
    const auto b = random_floats(5, n);
    std::vector<float> y(a.size());
    GetParam()->swiglu(a.data(), b.data(), n, y.data());
    for (size_t i = 0; i < a.size(); ++i) {
      const double expected = a[i] / (1 + std::exp(-double{a[i]})) * b[i];
      EXPECT_NEAR(y[i], expected, 5e-7 * std::abs(expected));
    }
    GetParam()->add(a.data(), b.data(), n, y.data());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(y[i], a[i] + b[i]);
    GetParam()->add_scaled(b.data(), 0.3F, n, y.data());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(y[i], std::fma(0.3F, b[i], a[i] + b[i]));
  }
}

float largest(const std::vector<float>& x, size_t begin, size_t n) {
  float max = 0;
  for (size_t i = begin; i < begin + n; ++i) max = std::max(max, std::abs(x[i]));
  return max;
}

TEST_P(Rows, Q8Of32RoundsToNearestEvenWithinItsScale) {
  const auto x = random_floats(6, 320, 2);
  std::vector<kernels::Q8Of32Block> blocks(2);
  ASSERT_TRUE(GetParam()->to_q8_of_32(x.data(), 320, blocks.data()));
  for (size_t b = 0; b < 10; ++b) {
    const kernels::Q8Of32Block& block = blocks[b / 8];
    const float scale = block.scales[b % 8];
    EXPECT_EQ(scale, largest(x, b * 32, 32) / 127);
    int32_t sum = 0;
    for (size_t i = b * 32; i < b * 32 + 32; ++i) {
      EXPECT_EQ(block.values[i % 256], static_cast<int>(std::nearbyint(x[i] / scale)));
      sum += block.values[i % 256];
    }
    EXPECT_EQ(block.negative_sums[b % 8], -sum);
  }
}

TEST_P(Rows, Q8Of256RoundsToNearestEvenWithinItsScale) {
  const auto x = random_floats(6, 512, 2);
  std::vector<kernels::Q8Of256Block> blocks(2);
  ASSERT_TRUE(GetParam()->to_q8_of_256(x.data(), 512, blocks.data()));
  for (size_t b = 0; b < 2; ++b) {
    const kernels::Q8Of256Block& block = blocks[b];
    EXPECT_EQ(block.scale, largest(x, b * 256, 256) / 127);
    std::vector<int> sums(16);
    for (size_t i = 0; i < 256; ++i) {
      EXPECT_EQ(block.values[i], static_cast<int>(std::nearbyint(x[b * 256 + i] / block.scale)));
      sums[i / 16] += block.values[i];
    }
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(block.sums_of_16[i], sums[i]);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(block.sums_of_32[i], sums[2 * i] + sums[2 * i + 1]);
  }
}

TEST_P(Rows, Q8TakesEveryFiniteRowAndRefusesTheOthers) {
  kernels::Q8Of32Block of_32;
  kernels::Q8Of256Block of_256;
  for (float extreme : {0.0F, 1e-45F, 1e-38F, 1e4F, 3e38F}) {
    std::vector<float> x(256, 0.0F);
    x[5] = extreme;
    x[6] = -extreme;
    ASSERT_TRUE(GetParam()->to_q8_of_32(x.data(), 64, &of_32)) << extreme;
    ASSERT_TRUE(GetParam()->to_q8_of_256(x.data(), 256, &of_256)) << extreme;
    EXPECT_TRUE(std::isfinite(of_32.scales[0]) && std::isfinite(of_256.scale));
    for (const int8_t* values : {of_32.values, of_256.values}) {
      EXPECT_EQ(values[5], extreme / 127 > 0 ? 127 : 0) << extreme;
      EXPECT_EQ(values[6], -values[5]);
    }
    EXPECT_EQ(of_32.scales[1], 0);
  }
  const std::vector<std::byte> zeros(sizeof of_32);
  for (float poison : {kNaN, kInfinity, -kInfinity}) {
    for (size_t place : {0U, 31U, 40U, 63U, 255U}) {
      std::vector<float> x(256, 1.0F);
      x[place] = poison;
      EXPECT_FALSE(GetParam()->to_q8_of_32(x.data(), 256, &of_32));
      EXPECT_FALSE(GetParam()->to_q8_of_256(x.data(), 256, &of_256));
      EXPECT_EQ(std::memcmp(&of_32, zeros.data(), sizeof of_32), 0);
      EXPECT_EQ(std::memcmp(&of_256, zeros.data(), sizeof of_256), 0);
    }
  }
}

TEST_P(Rows, Bf16RoundsToNearestEven) {
  std::vector<float> x = random_floats(7, 1000);
  for (float special : {kNaN, kInfinity, -kInfinity, 0.0F, -0.0F, 1e-45F, 3.4e38F}) x.push_back(special);
  std::vector<uint16_t> out(x.size());
  GetParam()->to_bf16(x.data(), static_cast<int64_t>(x.size()), out.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(out[i], kernels::bf16_of_float(x[i])) << x[i];
}

TEST_P(Rows, HalvesSurviveTheRoundTrip) {
  std::vector<half> all(65536);
  std::iota(all.begin(), all.end(), half{0});
  std::vector<float> wide(all.size());
  std::vector<half> back(all.size());
  GetParam()->f16_to_f32(all.data(), 65536, wide.data());
  GetParam()->f32_to_f16(wide.data(), 65536, back.data());
  for (size_t i = 0; i < all.size(); ++i) {
    const bool signalling = (i & 0x7c00) == 0x7c00 && (i & 0x3ff) != 0 && (i & 0x200) == 0;
    EXPECT_EQ(back[i], signalling ? i | 0x200 : i);
  }
}

TEST(RowsIsas, GiveTheSameBits) {
  const auto tables = test::all_tables();
  std::vector<float> x = random_floats(8, 4000, 30);
  for (float special :
       {0.0F, -0.0F, 1e-45F, 65504.0F, 65520.0F, 6e-8F, 2.98e-8F, -88.0F, 88.7F, -103.9F, 3e38F}) {
    x.push_back(special);
  }
  for (uint64_t i = 0; i < 4000; ++i)
    x.push_back(static_cast<float>(std::ldexp(1.0, static_cast<int>(i % 60) - 40)) * x[i]);
  const auto n = static_cast<int64_t>(x.size());
  const auto w = random_floats(9, n);
  std::vector<std::vector<float>> expected;
  std::vector<half> expected_halves;
  for (const KernelTable* table : tables) {
    std::vector<std::vector<float>> results(6, x);
    table->rms_norm(x.data(), w.data(), n, 1e-6F, results[0].data());
    table->softmax(results[1].data(), 4000);
    table->sigmoid(x.data(), n, results[2].data());
    table->swiglu(x.data(), w.data(), n, results[3].data());
    table->add_scaled(w.data(), 0.7F, n, results[4].data());
    table->softmax(results[5].data(), 37);
    std::vector<half> halves(x.size());
    table->f32_to_f16(x.data(), n, halves.data());
    if (expected.empty()) {
      expected = results;
      expected_halves = halves;
    }
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_TRUE(same_bits(results[i], expected[i])) << table->isa << i;
    EXPECT_TRUE(same_bits(halves, expected_halves)) << table->isa;
  }
}

}  // namespace
}  // namespace soli
