#include "format/pretokenizer.h"

#include <gtest/gtest.h>

namespace soli {
namespace {

using Words = std::vector<std::string>;

Words words(std::string_view name, const std::string& text) {
  const auto pretokenizer = Pretokenizer::create(name);
  EXPECT_TRUE(pretokenizer) << pretokenizer.error().message;
  const auto spans = pretokenizer->split(text);
  EXPECT_TRUE(spans) << spans.error().message;
  Words out;
  for (const TextSpan span : *spans) out.push_back(text.substr(span.begin, span.end - span.begin));
  return out;
}

TEST(Pretokenizer, Contractions) {
  EXPECT_EQ(words("gpt-2", "I'll I'LL"), (Words{"I", "'ll", " I", "'", "LL"}));
  EXPECT_EQ(words("llama-bpe", "I'll I'LL"), (Words{"I", "'ll", " I", "'LL"}));
  EXPECT_EQ(words("gpt-4o", "I'll I'LL"), (Words{"I'll", " I'LL"}));
}

TEST(Pretokenizer, DigitGroups) {
  EXPECT_EQ(words("gpt-2", "x 1234567"), (Words{"x", " 1234567"}));
  EXPECT_EQ(words("llama-bpe", "1234567"), (Words{"123", "456", "7"}));
  EXPECT_EQ(words("qwen2", "123"), (Words{"1", "2", "3"}));
  EXPECT_EQ(words("deepseek-v3", "a1234"), (Words{"a", "123", "4"}));
  EXPECT_EQ(words("default", "12345"), (Words{"123", "45"}));
}

TEST(Pretokenizer, Blanks) {
  EXPECT_EQ(words("gpt-2", "a   b  "), (Words{"a", "  ", " b", "  "}));
  EXPECT_EQ(words("llama-bpe", "a \n \n  b"), (Words{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(words("llama-bpe", "a.\n\n"), (Words{"a", ".\n\n"}));
  EXPECT_EQ(words("deepseek-llm", "a \n  "), (Words{"a", " ", "\n", "  "}));
  // U+180E is no blank for the models, U+00A0 and U+3000 are.
  EXPECT_EQ(words("gpt-2", "a\u00A0\u3000"), (Words{"a", "\u00A0\u3000"}));
  EXPECT_EQ(words("gpt-2", "  \u180E"), (Words{" ", " \u180E"}));
}

TEST(Pretokenizer, CapitalisedWords) {
  EXPECT_EQ(words("gpt-4o", "HelloWorld XMLfile"), (Words{"Hello", "World", " XMLfile"}));
  EXPECT_EQ(words("gpt-4o", "ABC中文 é́"), (Words{"ABC中文", " é́"}));
  EXPECT_EQ(words("tekken", "don't"), (Words{"don", "'t"}));
}

TEST(Pretokenizer, ChineseAndEmoji) {
  EXPECT_EQ(words("deepseek-v3", "我爱apple。"), (Words{"我爱", "apple", "。"}));
  EXPECT_EQ(words("qwen2", "👨\u200D👩 x"), (Words{"👨\u200D👩", " x"}));
  EXPECT_EQ(words("deepseek-llm", "中文abc123"), (Words{"中文", "abc", "123"}));
  // Kimi K2 takes Chinese characters apart from other letters, kana and hangul among them.
  EXPECT_EQ(words("kimi-k2", "ABC中文 don't Don'T 12345々〇あ한"),
            (Words{"ABC", "中文", " don't", " Don'T", " ", "123", "45", "々〇", "あ한"}));
  EXPECT_EQ(words("kimi-k2", "!中 中\n\n(Abc) é́"), (Words{"!", "中", " ", "中", "\n\n", "(Abc", ")", " é́"}));
}

TEST(Pretokenizer, TheWordsEndToEndAreTheText) {
  const std::string text =
      "Hello, y'all's!\t\n  12,345.67 \r\n中文、ひらがな 한국어 éé ΑΒΓ 👨\u200D👩\u200D👧 \u180E\u0000 <|x|> "
      "\u202F.";
  for (const PretokenizerEntry& entry : pretokenizer_table()) {
    std::string joined;
    for (const std::string& word : words(entry.names.front(), text)) {
      EXPECT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text) << entry.names.front();
    EXPECT_TRUE(words(entry.names.front(), "").empty());
  }
}

// A pattern that tried again from every byte of a run would not end within the time of a test.
TEST(Pretokenizer, LongRunsAreLinear) {
  for (const PretokenizerEntry& entry : pretokenizer_table()) {
    const auto pretokenizer = Pretokenizer::create(entry.names.front());
    for (const std::string unit :
         {"A", "a", ".", " ", "\n", "\r\n", " \n", "中", "😁", "'", "1", "\u0301", "aA"}) {
      std::string text;
      while (text.size() < 200'000) text += unit;
      for (const char* end : {"", "x", "。"}) {
        const auto spans = pretokenizer->split(text + end);
        EXPECT_TRUE(spans) << entry.names.front() << " '" << unit << "': " << spans.error().message;
      }
    }
  }
}

TEST(Pretokenizer, AnUnknownNameIsAnErrorThatListsTheKnown) {
  const auto unknown = Pretokenizer::create("gpt-99\n");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnsupported);
  for (const char* part : {"gpt-99", "qwen2", "llama-bpe", "deepseek-v3", "chatglm-bpe"}) {
    EXPECT_NE(unknown.error().message.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace soli
