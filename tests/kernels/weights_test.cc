// The oracles of the weight types against the golden files, and the x16 layout against the oracles.

#include <map>

#include "kernels/support.h"

namespace soli {
namespace {

using kernels::KernelTable;
using kernels::WeightKernels;
using test::read_golden;
using test::same_bits;

class Weights : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, Weights, testing::ValuesIn(test::all_tables()), test::isa_name);

constexpr int64_t kGoldenRows = 8;
constexpr int64_t kGoldenCols = 512;

double relative_error(const std::vector<float>& x, const std::vector<float>& reference) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += std::pow(double{x[i]} - double{reference[i]}, 2);
    norm += std::pow(double{reference[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

TEST_P(Weights, EveryTypeIsThereOnce) {
  std::map<uint32_t, std::string_view> types;
  for (const WeightKernels& type : GetParam()->weights) {
    EXPECT_TRUE(types.emplace(type.gguf_type, type.name).second) << type.name;
    EXPECT_EQ(GetParam()->find(type.gguf_type), &type);
  }
  const std::map<uint32_t, std::string_view> expected = {
      {0, "F32"},      {1, "F16"},     {2, "Q4_0"},     {3, "Q4_1"},   {6, "Q5_0"},    {7, "Q5_1"},
      {8, "Q8_0"},     {10, "Q2_K"},   {11, "Q3_K"},    {12, "Q4_K"},  {13, "Q5_K"},   {14, "Q6_K"},
      {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},
      {22, "IQ2_S"},   {23, "IQ4_XS"}, {29, "IQ1_M"},   {30, "BF16"},  {34, "TQ1_0"},  {35, "TQ2_0"},
      {39, "MXFP4"},   {40, "NVFP4"},  {41, "Q1_0"},    {42, "Q2_0"}};
  EXPECT_EQ(types, expected);
  EXPECT_EQ(GetParam()->find(4), nullptr) << "a retired type";
}

TEST_P(Weights, DequantizeRowEqualsTheGoldens) {
  for (const WeightKernels& type : GetParam()->weights) {
    if (type.name == "F32") continue;
    for (const char* suffix : {"", "_fuzz"}) {
      if (*suffix != 0 && type.block_elements < kernels::kQ8BlockElements) continue;  // single numbers
      SCOPED_TRACE(std::string(type.name) + suffix);
      const auto bytes = read_golden<std::byte>("dequant/" + std::string(type.name) + suffix + ".bin");
      const auto expected = read_golden<float>("dequant/" + std::string(type.name) + suffix + ".f32");
      ASSERT_FALSE(expected.empty());
      const auto n = static_cast<int64_t>(expected.size());
      ASSERT_EQ(static_cast<int64_t>(bytes.size()), type.row_bytes(n));
      std::vector<float> values(expected.size());
      type.dequantize_row(bytes.data(), n, values.data());
      EXPECT_TRUE(same_bits(values, expected));
    }
  }
}

/// Whether quantising searches, and so need not end where the reference does.
bool searches(const WeightKernels& type) { return type.name.starts_with("IQ") || type.name.ends_with("_K"); }

TEST_P(Weights, QuantizeRowEqualsTheReferenceOrIsAsGood) {
  const auto source = read_golden<float>("dequant/source.f32");
  ASSERT_EQ(static_cast<int64_t>(source.size()), kGoldenRows * kGoldenCols);
  for (const WeightKernels& type : GetParam()->weights) {
    SCOPED_TRACE(type.name);
    std::vector<std::byte> bytes(static_cast<size_t>(kGoldenRows * type.row_bytes(kGoldenCols)));
    for (int64_t r = 0; r < kGoldenRows; ++r) {
      type.quantize_row(source.data() + r * kGoldenCols, kGoldenCols,
                        bytes.data() + r * type.row_bytes(kGoldenCols));
    }
    std::vector<float> values(source.size());
    type.dequantize_row(bytes.data(), kGoldenRows * kGoldenCols, values.data());
    if (type.name == "F32") {
      EXPECT_TRUE(same_bits(values, source));
      continue;
    }
    const auto golden = read_golden<std::byte>("dequant/" + std::string(type.name) + ".bin");
    if (!searches(type)) {
      EXPECT_TRUE(same_bits(bytes, golden));
      continue;
    }
    const auto golden_values = read_golden<float>("dequant/" + std::string(type.name) + ".f32");
    EXPECT_LT(relative_error(values, source), 1.03 * relative_error(golden_values, source));
  }
}

TEST_P(Weights, QuantizeRowSurvivesExtremeRows) {
  for (const WeightKernels& type : GetParam()->weights) {
    for (float extreme : {0.0F, 1e-45F, 1e-38F, 1e4F, 3e38F, INFINITY, NAN}) {
      SCOPED_TRACE(std::string(type.name) + " with " + std::to_string(extreme));
      std::vector<float> row(256, 0.0F);
      row[3] = extreme;
      row[200] = -extreme;
      std::vector<std::byte> bytes(static_cast<size_t>(type.row_bytes(256)));
      type.quantize_row(row.data(), 256, bytes.data());
      std::vector<float> values(256);
      type.dequantize_row(bytes.data(), 256, values.data());
      if (extreme == 0.0F) {
        EXPECT_EQ(values, row);
      }
    }
  }
}

TEST_P(Weights, PackedLanesEqualTheirRows) {
  for (const WeightKernels& type : GetParam()->weights) {
    SCOPED_TRACE(type.name);
    // Single numbers: whole vectors of them and some more.
    const int64_t cols = type.block_elements < kernels::kQ8BlockElements ? 38 : 3 * type.block_elements;
    // Random bits visit every field; rows are told apart by them.
    std::vector<std::byte> rows(static_cast<size_t>(type.strip_bytes(cols)));
    Rng rng(7);
    for (std::byte& b : rows) b = static_cast<std::byte>(rng.next_below(256));
    std::vector<std::byte> packed(rows.size());
    type.pack_strip(rows.data(), cols, packed.data());
    EXPECT_FALSE(same_bits(packed, rows));
    for (int lane = 0; lane < kernels::kStripRows; ++lane) {
      std::vector<float> expected(static_cast<size_t>(cols));
      std::vector<float> values(static_cast<size_t>(cols));
      type.dequantize_row(rows.data() + lane * type.row_bytes(cols), cols, expected.data());
      type.dequantize_lane(packed.data(), lane, cols, values.data());
      EXPECT_TRUE(same_bits(values, expected)) << "lane " << lane;
    }
  }
}

TEST(Dispatch, FindsTheFastestAndNamesWhatThereIs) {
  const auto isas = kernels::available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.back(), "scalar");
  EXPECT_EQ(kernels::select_kernels("").value()->isa, isas.front());
  for (std::string_view isa : isas) EXPECT_EQ(kernels::select_kernels(isa).value()->isa, isa);
  for (std::string_view isa : {"neon", "AVX2", "avx"}) {
    const auto refused = kernels::select_kernels(isa);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find(isa), std::string::npos);
    EXPECT_NE(refused.error().message.find("scalar"), std::string::npos) << "says what is there";
  }
}

}  // namespace
}  // namespace soli
