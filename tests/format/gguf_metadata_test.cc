#include "format/gguf_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace soli {
namespace {

using testing::HasSubstr;

GgufValue int64_value(int64_t value) {
  GgufValue out = GgufValue::of_uint64(static_cast<uint64_t>(value));
  out.type = GgufType::kInt64;
  return out;
}

GgufMetadata sample() {
  return GgufMetadata::build("m.gguf",
                             {{"count", GgufValue::of_uint32(8)},
                              {"minus", GgufValue::of_int32(-1)},
                              {"minus64", int64_value(-1)},
                              {"most", GgufValue::of_uint64(std::numeric_limits<uint64_t>::max())},
                              {"eps", GgufValue::of_float(1e-5F)},
                              {"nan", GgufValue::of_float(std::numeric_limits<float>::quiet_NaN())},
                              {"flag", GgufValue::of_bool(true)},
                              {"name", GgufValue::of_string("tiny\x01")},
                              {"tokens", GgufValue::of_strings(std::vector<std::string>{"a", "bc"})},
                              {"ids", GgufValue::of_int32s(std::vector<int32_t>{1, 2, 3, 4, 5})},
                              {"scores", GgufValue::of_floats(std::vector<float>{-1.5F})}})
      .value();
}

TEST(GgufMetadata, AWrongTypeNamesKeyFoundAndWanted) {
  const GgufMetadata metadata = sample();
  EXPECT_EQ(metadata.get_uint("name").error().message,
            "m.gguf: metadata key 'name' is \"tiny\\x01\" of type str, and must be a non-negative integer");
  EXPECT_THAT(metadata.get_uint("minus").error().message, HasSubstr("'minus' is -1 of type i32"));
  EXPECT_THAT(metadata.get_uint("minus64").error().message, HasSubstr("'minus64' is -1 of type i64"));
  EXPECT_THAT(metadata.get_uint("flag").error().message, HasSubstr("true of type bool"));
  EXPECT_THAT(metadata.get_uint("eps").error().message, HasSubstr("1e-05 of type f32"));
  EXPECT_THAT(metadata.get_float("nan").error().message, HasSubstr("must be a finite number"));
  EXPECT_THAT(metadata.get_bool("count").error().message, HasSubstr("must be a bool"));
  EXPECT_THAT(metadata.get_string("count").error().message, HasSubstr("must be a string"));
  EXPECT_THAT(metadata.get_strings("ids").error().message, HasSubstr("5 x [1, 2, 3, 4, ...] of type [i32]"));
  EXPECT_THAT(metadata.get_strings("name").error().message, HasSubstr("must be an array of strings"));
  EXPECT_THAT(metadata.get_ints("tokens").error().message, HasSubstr("2 x [\"a\", \"bc\"] of type [str]"));
  EXPECT_FALSE(metadata.get_ints("count"));
  EXPECT_FALSE(metadata.get_floats("ids"));
  EXPECT_FALSE(metadata.get_bools("ids"));
}

TEST(GgufMetadata, NumbersConvertWhereNothingIsLost) {
  const GgufMetadata metadata = sample();
  EXPECT_EQ(metadata.get_uint("most").value(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(metadata.get_float("count").value(), 8.0);
  EXPECT_EQ(metadata.get_float("minus").value(), -1.0);
  EXPECT_EQ(metadata.get_float("eps").value(), double{1e-5F});
  EXPECT_EQ(metadata.get_floats("scores").value(), std::vector<float>{-1.5F});
  GgufValue huge = GgufValue::of_uint32s(std::vector<uint32_t>{0, 1U << 31});  // as one u64: 2^63
  huge.element = GgufType::kUint64;
  huge.count = 1;
  const auto wide = GgufMetadata::build("m.gguf", {{"wide", huge}}).value();
  EXPECT_THAT(wide.get_ints("wide").error().message, HasSubstr("below 2^63"));
}

TEST(GgufMetadata, AMissingKeyTakesTheFallbackAndAWrongOneDoesNot) {
  const GgufMetadata metadata = sample();
  const auto missing = metadata.get_uint("other");
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(missing.error().message, "m.gguf: metadata key 'other' is missing");
  EXPECT_EQ(metadata.get_uint_or("other", 5).value(), 5U);
  EXPECT_EQ(metadata.get_float_or("other", 0.5).value(), 0.5);
  EXPECT_EQ(metadata.get_bool_or("other", true).value(), true);
  EXPECT_EQ(metadata.get_string_or("other", "x").value(), "x");
  EXPECT_EQ(metadata.get_uint_or("count", 5).value(), 8U);
  EXPECT_FALSE(metadata.get_uint_or("name", 5));
  EXPECT_FALSE(metadata.get_float_or("name", 5));
  EXPECT_FALSE(metadata.get_bool_or("name", true));
  EXPECT_FALSE(metadata.get_string_or("count", "x"));
  EXPECT_TRUE(metadata.is_array("ids"));
  EXPECT_FALSE(metadata.is_array("count"));
  EXPECT_FALSE(metadata.is_array("other"));
}

TEST(GgufMetadata, ListingIsShortAndInTheOrderOfTheFile) {
  const auto lines = sample().listing();
  ASSERT_EQ(lines.size(), 11U);
  EXPECT_EQ(lines[0].key, "count");
  EXPECT_EQ(lines[0].type, "u32");
  EXPECT_EQ(lines[0].value, "8");
  EXPECT_EQ(lines[3].value, "18446744073709551615");
  EXPECT_EQ(lines[9].type, "[i32]");
  EXPECT_EQ(lines[9].value, "5 x [1, 2, 3, 4, ...]");
  const auto text =
      GgufMetadata::build("m", {{"t", GgufValue::of_string(std::string(1'000'000, 'x'))}}).value();
  EXPECT_LT(text.listing().front().value.size(), 60U);
}

}  // namespace
}  // namespace soli
