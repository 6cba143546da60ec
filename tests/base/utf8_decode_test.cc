#include <gtest/gtest.h>

#include "base/utf8.h"

namespace soli {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    std::string text;
    append_utf8(text, code_point);
    const Utf8Unit unit = utf8_front(text);
    const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    ASSERT_TRUE(unit.valid);
    ASSERT_EQ(unit.bytes, text.size());
    ASSERT_EQ(unit.code_point, surrogate ? 0xFFFDu : code_point);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Unit part = utf8_front(std::string_view(text).substr(0, cut));
      ASSERT_TRUE(part.incomplete && !part.valid && part.bytes == cut);
    }
  }
}

// The examples of table 3-8 of the Unicode standard, and the like.
TEST(Utf8, EachIllFormedPartBecomesOneReplacement) {
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD") << "above U+10FFFF";
  EXPECT_EQ(replace_invalid_utf8("\xF5z\xFF"), "\uFFFDz\uFFFD");
  EXPECT_FALSE(is_valid_utf8("a\x80"));
  EXPECT_TRUE(is_valid_utf8("aé中😁"));
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_EQ(utf8_front("").bytes, 0u);
}

}  // namespace
}  // namespace soli
