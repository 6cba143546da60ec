// Patterns of Oniguruma in the language of PCRE2. What they match is what Oniguruma 6.9.8 matches.

#include <gmock/gmock.h>

#include "format/hf/oniguruma.h"
#include "format/regex.h"

namespace soli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// All matches of a pattern in a text, or the error.
std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  const auto translated = hf::pcre2_of_oniguruma(pattern);
  if (!translated) return {translated.error().message};
  const auto regex = Regex::compile(*translated);
  if (!regex) return {regex.error().message};
  RegexScratch scratch(text.size());
  std::vector<TextSpan> spans;
  if (const Status status = regex->find_all(text, scratch, spans); !status) return {status.error().message};
  std::vector<std::string> out;
  for (const TextSpan span : spans) out.emplace_back(span.of(text));
  return out;
}

TEST(HfRegex, ClassesAreThoseOfUnicode) {
  EXPECT_THAT(matches(R"(\s+)", "a \t\u0085\u3000b\uFEFF\u180E"), ElementsAre(" \t\u0085\u3000"));
  EXPECT_THAT(matches(R"([^\s]+)", "a\u0085b\uFEFF"), ElementsAre("a", "b\uFEFF"));
  EXPECT_THAT(matches(R"(\d+)", "1²٣"), ElementsAre("1", "٣"));
  EXPECT_THAT(matches(R"(\w+)", "é_x-²\u0301"), ElementsAre("é_x", "²\u0301"));
  EXPECT_THAT(matches(R"([\w]+)", "x²"), ElementsAre("x")) << "in a class, ² is no part of a word";
  EXPECT_THAT(matches(R"(\W)", "a-b"), ElementsAre("-"));
  EXPECT_THAT(matches(R"(\h+)", "xAf09g"), ElementsAre("Af09"));
  EXPECT_THAT(matches(R"(\bb)", "ab b"), ElementsAre("b"));
}

TEST(HfRegex, Properties) {
  EXPECT_THAT(matches(R"(\p{Lu}+|\p{^L}|\P{L})", "ABc-"), ElementsAre("AB", "-"));
  EXPECT_THAT(matches(R"(\p{Han}+)", "中文、々x"), ElementsAre("中文", "々"));
  EXPECT_THAT(matches(R"([\p{Hiragana}\p{Katakana}]+)", "あーア"), ElementsAre("あ", "ア"))
      << "the scripts themselves, not their extensions";
  EXPECT_THAT(matches(R"(\p{Punct}+|[[:punct:]])", "a.+-"), ElementsAre(".", "-")) << "not symbols";
  EXPECT_THAT(matches(R"([[:blank:]]+)", "a \t\u3000\n"), ElementsAre(" \t\u3000"));
  EXPECT_THAT(matches(R"(\p{Nonsense})", ""), ElementsAre(HasSubstr("unknown property")));
}

TEST(HfRegex, CaseIsThatOfUnicode) {
  EXPECT_THAT(matches(R"((?i:'s|'k))", "'s 'S '\u017F '\u212A"),
              ElementsAre("'s", "'S", "'\u017F", "'\u212A"));
  EXPECT_THAT(matches("(?i)ab", "AB"), ElementsAre("AB"));
}

TEST(HfRegex, Lines) {
  EXPECT_THAT(matches(R"(^.+$)", "a\r\nb\u2028c"), ElementsAre("a\r", "b\u2028c"));
  EXPECT_THAT(matches(R"(\A.|.\z)", "ab\ncd"), ElementsAre("a", "d"));
}

TEST(HfRegex, Repeats) {
  EXPECT_THAT(matches(R"(\d{1,3}+)", "1234567"), ElementsAre("1234567")) << "not possessive: repeated";
  EXPECT_THAT(matches(R"(a{2}?)", "aaa"), ElementsAre("aa", "")) << "not lazy: optional";
  EXPECT_THAT(matches(R"(a{,2})", "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(matches(R"(a++b|a)", "aab"), ElementsAre("aab"));
  EXPECT_THAT(matches(R"(a{x)", "a{x"), ElementsAre("a{x"));
  EXPECT_THAT(matches(R"(a+?)", "aa"), ElementsAre("a", "a"));
  EXPECT_THAT(matches(R"((?:ab)*c)", "ababc"), ElementsAre("ababc"));
}

TEST(HfRegex, ClassesInClasses) {
  EXPECT_THAT(matches(R"([^(\s|[.,!?])]+)", "ab|c,d(e f"), ElementsAre("ab", "c", "d", "e", "f"));
  EXPECT_THAT(matches(R"([]a-]+)", "b]a-"), ElementsAre("]a-"));
  EXPECT_THAT(matches(R"([[:alpha:]\-\]]+)", "x-]1"), ElementsAre("x-]"));
  EXPECT_THAT(matches(R"([\x{4E00}-\u9FA5]+)", "中a"), ElementsAre("中"));
}

TEST(HfRegex, WhatHasNoCounterpartIsNamed) {
  EXPECT_THAT(matches(R"((a)\1)", ""),
              ElementsAre(R"('\1' at byte 3 of the pattern '(a)\1' is not supported)"));
  for (const char* pattern :
       {R"(\Gx)", R"(\Rx)", "[a&&b]", "[a[^b]]", "(?m)a", "(?<n>a)", "a(?i)b", R"([\W])"}) {
    EXPECT_THAT(matches(pattern, ""), ElementsAre(HasSubstr("not supported"))) << pattern;
  }
  for (const char* pattern :
       {"(", ")", "[", "[a", "*", "\\", "a{3,2}", "[b-a]", R"(\x{110000})", R"(\xFF)"}) {
    EXPECT_THAT(matches(pattern, ""), ElementsAre(HasSubstr("at byte"))) << pattern;
  }
  EXPECT_THAT(matches("a{1001}", ""), ElementsAre(HasSubstr("over the 1000 allowed")));
  EXPECT_THAT(matches(std::string(20'000, 'a'), ""), ElementsAre(HasSubstr("a pattern has 20000 bytes")));
  EXPECT_THAT(matches(std::string(5000, '(') + std::string(5000, ')'), ""), ElementsAre(HasSubstr("nested")));
}

TEST(HfRegex, BacktrackingIsBounded) {
  const std::string text(20'000, 'a');
  for (const char* pattern :
       {"(?:a+)+b", "(?:a|aa)+b", "(?:a|a)*b", "a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?b|x", "a*b|a",
        "a*[bc]|a*[de]|a", "(?=a*c)|a", "(?:a{1,100}){1,100}b", "a.*b|a",
        "(?:aa|a)(?:aa|a)(?:aa|a)(?:aa|a)(?:aa|a)(?:aa|a)(?:aa|a)(?:aa|a)b*c"}) {
    const auto found = matches(pattern, text);
    if (found.size() == 1) {
      EXPECT_THAT(found[0], HasSubstr("a pattern gives up at byte")) << pattern;
    }
  }
}

TEST(HfRegex, PublishedPatternsTakeLinearTime) {
  const std::string o200k =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  for (const std::string unit :
       {"A", "a", ".", " ", "\n", "中", "1", "\u0301", "A.", " \n", "\n ", ".A1 ", "aA"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    size_t bytes = 0;
    for (const std::string& match : matches(o200k, text)) bytes += match.size();
    EXPECT_EQ(bytes, text.size()) << unit;
  }
}

}  // namespace
}  // namespace soli
