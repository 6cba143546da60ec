#include "format/ggml_types.h"

#include <gtest/gtest.h>

namespace soli {
namespace {

TEST(GgmlTypes, RetiredOnesAreNamedAndHaveNoLayout) {
  for (const GgmlType& type : ggml_types()) {
    EXPECT_EQ(find_ggml_type(type.id), &type);
    EXPECT_FALSE(type.name.empty());
    EXPECT_EQ(type.block_elements == 0, type.block_bytes == 0);
    const bool retired =
        type.id == 4 || type.id == 5 || (type.id >= 31 && type.id <= 33) || (type.id >= 36 && type.id <= 38);
    EXPECT_EQ(type.retired(), retired) << type.name;
    EXPECT_EQ(ggml_tensor_bytes(type.id, {256, 3, 1, 1}).has_value(), !retired);
  }
  EXPECT_EQ(find_ggml_type(43), nullptr);
  EXPECT_EQ(ggml_type_name(kGgmlQ4_K), "Q4_K");
  EXPECT_EQ(ggml_type_name(99), "type 99");
}

TEST(GgmlTypes, BytesOfATensor) {
  EXPECT_EQ(ggml_tensor_bytes(kGgmlF32, {5, 3, 2, 1}).value(), 120);
  EXPECT_EQ(ggml_tensor_bytes(kGgmlQ4_K, {512, 3, 1, 1}).value(), 2 * 144 * 3);
  EXPECT_EQ(ggml_tensor_bytes(kGgmlMXFP4, {32, 1, 1, 4}).value(), 17 * 4);
  EXPECT_DOUBLE_EQ(find_ggml_type(kGgmlQ4_K)->bits_per_weight(), 4.5);
  EXPECT_DOUBLE_EQ(find_ggml_type(kGgmlQ8_0)->bits_per_weight(), 8.5);
  const int64_t many = int64_t{1} << 50;
  EXPECT_EQ(ggml_tensor_bytes(kGgmlI8, {many, 1, 1, 1}).value(), many) << "64-bit sizes";
}

}  // namespace
}  // namespace soli
