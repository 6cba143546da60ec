#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace soli {
namespace {

TEST(Utf8, TellsCharactersFromBytesThatAreNone) {
  EXPECT_EQ(utf8_front("a").bytes, 1U);
  EXPECT_EQ(utf8_front("\xC3\xA9x").code_point, 0xE9U);
  EXPECT_EQ(utf8_front("\xE4\xB8\xAD").bytes, 3U);
  EXPECT_EQ(utf8_front("\xF0\x9F\x98\x80").code_point, 0x1F600U);
  for (const std::string text :
       {"", "\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE4\xB8", "\xF0\x9F\x98", "\xE4\x28\xAD"}) {
    EXPECT_FALSE(utf8_front(text).valid) << testing::PrintToString(text);
    EXPECT_EQ(is_valid_utf8("a" + text), text.empty());
  }
}

TEST(Utf8, PrintableIsOneLineOfBoundedLength) {
  EXPECT_EQ(printable("a\n\tb\x01\xFF\x7F\xC2\x85 \xC3\xA9"), "a\\n\\tb\\x01\\xFF\\x7F\\xC2\\x85 \xC3\xA9");
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdef", 5), "abcde...");
  EXPECT_EQ(printable("ab\xE4\xB8\xAD", 4), "ab...") << "no half character";
}

}  // namespace
}  // namespace soli
