// TOML that came from anywhere: how deep it may be, and that nothing ordinary is refused for its dots.

#include "format/toml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soli {
namespace {

using ::testing::HasSubstr;

std::string repeat(std::string_view part, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += part;
  return text;
}

std::string message_of(const std::string& text) {
  const auto table = parse_toml(text, "f", size_t{1} << 20);
  return table ? "" : table.error().message;
}

TEST(TomlText, KeysOfManyPartsAreRefusedBeforeTheyAreParsed) {
  const std::string deep = repeat("a.", 60'000) + "b";
  const std::string part = repeat("a.", 30) + "b = ";
  std::string nested = "1";
  for (int i = 0; i < 3; ++i) nested = "{ " + part + nested + " }";
  const std::vector<std::string> texts = {
      deep + " = 1",
      "[" + deep + "]",
      "[[" + deep + "]]",
      "x = { y = 1, " + deep + " = 1 }",
      "x = [ { y = { " + deep + " = 1 } } ]",
      repeat("a . ", 60'000) + "b = 1",
      repeat("'a'.", 60'000) + "b = 1",
      "x = " + nested,
      "x = " + repeat("[", 200) + repeat("]", 200),
      repeat("a.", 33) + "b = 1",
  };
  for (const std::string& text : texts) {
    EXPECT_EQ(message_of("k = 1\n\n" + text), "f:3: a key or list is nested more than 32 deep")
        << text.substr(0, 60);
  }
}

TEST(TomlText, WhatHidesNoKeyFromTheParserHidesNoneHere) {
  const std::string deep = repeat("a.", 60'000) + "b = 1";
  for (const char* const before : {"x = \"\"\n", "x = \"\\\"\"\n", "x = '\\'\n", "x = \"\"\"a\"\"\"\n",
                                   "x = \"\"\"a\"\"\"\"\"\n", "x = '''a'''''\n", "x = \"\"\"a\\\"\"\"\"\n",
                                   "# \"\n", "x = 1 # '''\n", "x = '#'\n", "x = ''''''\n"}) {
    EXPECT_EQ(message_of(before), "");
    EXPECT_THAT(message_of(before + deep), HasSubstr("nested more than 32")) << before;
  }
}

TEST(TomlText, OrdinaryTextsPass) {
  const std::string dots(100, '.');
  EXPECT_EQ(message_of(repeat("a.", 32) + "b = 1"), "");
  EXPECT_EQ(message_of("a = '" + dots + "'\nb = \"" + dots + "\\\"" + dots + "\"\nc = 1.5"), "");
  EXPECT_EQ(message_of("a = \"\"\"\n" + dots + "\n\"" + dots + "\"\"\"\nb = '''" + dots + "'''"), "");
  EXPECT_EQ(message_of("a = 1 # " + dots + "\n# " + dots), "");
  EXPECT_EQ(message_of("'" + dots + "' = 1"), "");
  EXPECT_EQ(message_of("a = [" + repeat("1.5, ", 1000) + "2.5]"), "");
  EXPECT_EQ(message_of("a = [\n" + repeat("  { b.c = 1.5, d = 2.5 },\n", 100) + "]"), "");
  EXPECT_EQ(message_of(repeat("[[a.b]]\nc = 1979-05-27T07:32:00.5Z\n", 100)), "");
}

TEST(TomlText, ErrorsNameTheTextAndTheLine) {
  EXPECT_THAT(message_of("a = 1\nb ="), ::testing::StartsWith("f:2: "));
  for (const char* const torn :
       {"a = \"x", "a = '''x", "a = \"x\\", "a = ]", "[", "\"", "a = \"\"\"x\"\"", "'''"})
    EXPECT_THAT(message_of(torn), ::testing::StartsWith("f:1: ")) << torn;
  const auto large = parse_toml("a = 123", "f", 6);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().message, "f: 7 bytes; 6 are allowed");
}

}  // namespace
}  // namespace soli
