// Token ids against those of llama.cpp (tests/golden/README.md): digit groups, CJK, emoji with joiners, tabs,
// trailing blanks, text after special tokens.

#include <gtest/gtest.h>

#include <set>

#include "base/utf8.h"
#include "format/detokenizer.h"
#include "format/tokenizer_test_support.h"

namespace soli {
namespace {

using namespace tokenizer_test;
using Ids = std::vector<int32_t>;

Ids encode(const Tokenizer& tokenizer, const std::string& text, bool add_special, bool parse_special) {
  auto ids = tokenizer.encode(text, {.add_special = add_special, .parse_special = parse_special});
  EXPECT_TRUE(ids) << ids.error().message;
  return ids ? *ids : Ids();
}

/// The streamed chunks are valid, and together they are the decoded text.
void expect_streams(const Tokenizer& tokenizer, const Ids& ids) {
  const DecodeOptions options{.render_special = true};
  Detokenizer stream(tokenizer, options);
  std::string joined;
  for (const int32_t id : ids) {
    const std::string chunk = stream.push(id);
    EXPECT_TRUE(is_valid_utf8(chunk));
    joined += chunk;
  }
  joined += stream.flush();
  EXPECT_EQ(joined, replace_invalid_utf8(tokenizer.decode(ids, options)));
}

class GoldenVocabulary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tokenizer_ = golden_tokenizer(GetParam());
    if (tokenizer_ == nullptr)
      GTEST_SKIP() << GetParam() << " may not be in the repository; set SOLI_GOLDEN_DIR";
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(GoldenVocabulary, EqualsLlamaCpp) {
  const std::string tests = find_golden(std::string("tokenizers/") + GetParam() + "/tests.json");
  ASSERT_NE(tests, "");
  int compared = 0;
  for (const auto& test : read_json(tests)) {
    const std::string text = test["text"];
    SCOPED_TRACE(testing::PrintToString(text));
    const Ids ids = test["ids"];
    EXPECT_EQ(encode(*tokenizer_, text, false, false), ids);
    EXPECT_EQ(encode(*tokenizer_, text, true, false), test["ids_add_special"].get<Ids>());
    const Ids special = encode(*tokenizer_, text, false, true);
    if (!test.value("hf_differs", false) || special != test["hf_ids_parse_special"].get<Ids>()) {
      EXPECT_EQ(special, test["ids_parse_special"].get<Ids>());
    }
    const std::string decoded = tokenizer_->decode(ids, {.render_special = true});
    // llama.cpp takes the blank before "?" and the like away for some vocabularies; the text had it.
    if (decoded != text) {
      EXPECT_EQ(decoded, from_hex(test["detok_hex"]));
    }
    expect_streams(*tokenizer_, ids);
    ++compared;
  }
  EXPECT_GE(compared, 80);
}

TEST_P(GoldenVocabulary, EqualsTheTestsOfLlamaCpp) {
  const std::string folder = std::string("tokenizers/") + GetParam() + "/upstream";
  const std::string input = find_golden(folder + ".inp"), output = find_golden(folder + ".out");
  if (input.empty()) GTEST_SKIP() << "llama.cpp has none for this vocabulary";
  const std::string texts = read_text(input), separator = "\n__ggml_vocab_test__\n";
  std::istringstream lines(read_text(output));
  int compared = 0;
  for (size_t begin = 0, end; (end = texts.find(separator, begin)) != std::string::npos;
       begin = end + separator.size()) {
    const std::string text = texts.substr(begin, end - begin);
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream numbers(line);
    const Ids ids{std::istream_iterator<int32_t>(numbers), std::istream_iterator<int32_t>()};
    EXPECT_EQ(encode(*tokenizer_, text, false, false), ids) << testing::PrintToString(text);
    ++compared;
  }
  EXPECT_GE(compared, 40);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenVocabulary,
                         testing::Values("gpt-2", "qwen2", "deepseek-v3", "llama-bpe", "llama-spm"));

TEST(GoldenCase, TinyTokenizersEqualLlamaCpp) {
  std::set<std::string> done;
  for (const std::string& root : golden_roots()) {
    for (const auto& folder : std::filesystem::directory_iterator(root)) {
      const std::string path = folder.path().string();
      if (!std::filesystem::exists(path + "/tokenize.json")) continue;
      if (!done.insert(folder.path().filename().string()).second) continue;
      SCOPED_TRACE(path);
      const bool one_file = std::filesystem::exists(path + "/model.gguf");
      const auto tokenizer = open_tokenizer(path + (one_file ? "/model.gguf" : "/model-00001-of-00003.gguf"));
      ASSERT_NE(tokenizer, nullptr);
      for (const auto& test : read_json(path + "/tokenize.json")) {
        const std::string text = test["text"];
        const Ids ids = encode(*tokenizer, text, test["add_special"], false);
        EXPECT_EQ(ids, test["ids"].get<Ids>()) << testing::PrintToString(text);
        const std::string decoded = tokenizer->decode(ids, {.render_special = true});
        if (decoded != text) {
          EXPECT_EQ(decoded, from_hex(test["detok_utf8_hex"]));
        }
        expect_streams(*tokenizer, ids);
      }
    }
  }
  EXPECT_GE(done.size(), 7u);
}

}  // namespace
}  // namespace soli
