// The stages of a tokenizer.json together: added tokens, the model, what goes around a text.

#include <gmock/gmock.h>

#include "format/detokenizer.h"
#include "format/hf_tokenizer_test_support.h"

namespace soli {
namespace {

using namespace hf_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(HfTokenizer, MergesByRankFromTheLeft) {
  const auto tokenizer = make(file_of({"a", "b", "c"}, {"b c", "a b", "a bc"}));
  EXPECT_THAT(tokens_of(*tokenizer, "abc"), ElementsAre("abc"));
  EXPECT_THAT(tokens_of(*tokenizer, "abab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(tokens_of(*tokenizer, "aabcb"), ElementsAre("a", "abc", "b"));
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->description(), "BPE of a tokenizer.json, 6 tokens");
}

TEST(HfTokenizer, TakesMergesAsPairs) {
  Json file = file_of({"a", "b", " "}, {"a b"});
  file["model"]["vocab"]["a b"] = 4;
  file["model"]["vocab"]["a "] = 5;
  file["model"]["merges"] = Json::array({Json::array({"a", " "}), Json::array({"a ", "b"})});
  EXPECT_THAT(tokens_of(*make(file), "a bab"), ElementsAre("a b", "a", "b"));
}

TEST(HfTokenizer, OfTwoMergesOfAPairTheLaterCounts) {
  Json file = file_of({"a", "b", "c"}, {"a b", "b c"});
  EXPECT_THAT(tokens_of(*make(file), "abc"), ElementsAre("ab", "c"));
  file["model"]["merges"] = {"a b", "b c", "a b"};
  EXPECT_THAT(tokens_of(*make(file), "abc"), ElementsAre("a", "bc"));
}

TEST(HfTokenizer, WholeWordsComeFirstIfMergesAreIgnored) {
  Json file = file_of({"a", "b", "c"}, {"a b"});
  file["model"]["vocab"]["abc"] = 9;
  EXPECT_THAT(tokens_of(*make(file), "abc"), ElementsAre("ab", "c"));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(tokens_of(*make(file), "abc"), ElementsAre("abc"));
}

TEST(HfTokenizer, UnknownCharacters) {
  Json file = file_of({"<unk>", "a", "<0xC3>", "<0xA9>"}, {});
  EXPECT_THAT(tokens_of(*make(file), "a€a"), ElementsAre(HasSubstr("no token for '€'")));
  file["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(tokens_of(*make(file), "a€€a"), ElementsAre("a", "<unk>", "<unk>", "a"));
  file["model"]["fuse_unk"] = true;
  EXPECT_THAT(tokens_of(*make(file), "a€€a€"), ElementsAre("a", "<unk>", "a", "<unk>"));
  file["model"]["byte_fallback"] = true;
  EXPECT_THAT(tokens_of(*make(file), "aéa"), ElementsAre("a", "<0xC3>", "<0xA9>", "a"));
  EXPECT_THAT(tokens_of(*make(file), "a€a"), ElementsAre("a", "<unk>", "a"))
      << "not all of its bytes are tokens";
}

TEST(HfTokenizer, PrefixesWithinAWordAndASuffixAtItsEnd) {
  Json file = file_of({"a", "##a", "##a</w>", "a</w>"}, {});
  file["model"]["continuing_subword_prefix"] = "##";
  file["model"]["end_of_word_suffix"] = "</w>";
  file["model"]["vocab"]["aa"] = 4;
  file["model"]["merges"] = {"a ##a"};
  EXPECT_THAT(tokens_of(*make(file), "aaa"), ElementsAre("aa", "##a</w>"));
  EXPECT_THAT(tokens_of(*make(file), "a"), ElementsAre("a</w>"));
}

TEST(HfTokenizer, BytesThatAreNoUtf8CountAsReplacementCharacters) {
  const auto tokenizer = make(byte_level_file({}));
  const auto ids = tokenizer->encode(
      "a\xFF\xC3"
      "b");
  EXPECT_EQ(*ids, *tokenizer->encode("a\uFFFD\uFFFDb"));
  EXPECT_EQ(tokenizer->decode(*ids), "a\uFFFD\uFFFDb");
}

TEST(HfTokenizer, AddedTokensComeFirstAndTheLongestOfThem) {
  Json file = byte_level_file({"a b"});
  file["added_tokens"] = Json::array(
      {added_token(300, "<|a|>", true), added_token(301, "<|a|><|b|>", true), added_token(302, "ba", false)});
  const auto tokenizer = make(file);
  EXPECT_THAT(tokens_of(*tokenizer, "ab<|a|>ab-ab", {.parse_special = true}),
              ElementsAre("ab", "<|a|>", "ab", "-", "ab"));
  EXPECT_THAT(tokens_of(*tokenizer, "x<|a|><|b|>", {.parse_special = true}), ElementsAre("x", "<|a|><|b|>"));
  EXPECT_THAT(tokens_of(*tokenizer, "xba", {.parse_special = false}), ElementsAre("x", "ba"))
      << "one that is not special is always found";
  EXPECT_THAT(tokens_of(*tokenizer, "<|a|>", {.parse_special = false}).size(), 5u);
  EXPECT_EQ(tokenizer->vocab_size(), 303);
  EXPECT_EQ(tokenizer->token_text(299), "") << "nobody has this id";
  EXPECT_TRUE(tokenizer->is_control(300));
  EXPECT_FALSE(tokenizer->is_control(302));
}

TEST(HfTokenizer, AddedTokensTakeWhiteSpaceAlong) {
  Json file = byte_level_file({});
  file["added_tokens"] = Json::array({added_token(300, "<l>", false), added_token(301, "<r>", false)});
  file["added_tokens"][0]["lstrip"] = true;
  file["added_tokens"][1]["rstrip"] = true;
  const auto tokenizer = make(file);
  EXPECT_THAT(tokens_of(*tokenizer, "x \u3000<l> y"), ElementsAre("x", "<l>", "Ġ", "y"));
  EXPECT_THAT(tokens_of(*tokenizer, "x <r>\n\u2003<l>y"), ElementsAre("x", "Ġ", "<r>", "<l>", "y"));
}

TEST(HfTokenizer, AddedTokensThatMustBeWords) {
  Json file = byte_level_file({});
  file["added_tokens"] = Json::array({added_token(300, "ab", false)});
  file["added_tokens"][0]["single_word"] = true;
  const auto tokenizer = make(file);
  EXPECT_THAT(tokens_of(*tokenizer, "ab ab."), ElementsAre("ab", "Ġ", "ab", "."));
  EXPECT_THAT(tokens_of(*tokenizer, "éab"), ElementsAre("Ã", "©", "a", "b"));
  EXPECT_THAT(tokens_of(*tokenizer, "ab_"), ElementsAre("a", "b", "_"));
}

TEST(HfTokenizer, AddedTokensMayBeLookedForInTheNormalizedText) {
  Json file = byte_level_file({});
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"] = Json::array({added_token(300, "RAW", false), added_token(301, "Norm", false)});
  file["added_tokens"][1]["normalized"] = true;
  const auto tokenizer = make(file);
  EXPECT_THAT(tokens_of(*tokenizer, "RAWNORMraw"), ElementsAre("RAW", "Norm", "r", "a", "w"));
}

Json template_of(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  Json out = {{"type", "TemplateProcessing"}, {"single", Json::array()}, {"special_tokens", Json::object()}};
  const auto add = [&](const std::string& name) {
    out["single"].push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    out["special_tokens"][name] = {{"id", name}, {"ids", {name == "<s>" ? 300 : 301}}, {"tokens", {name}}};
  };
  for (const std::string& name : before) add(name);
  out["single"].push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const std::string& name : after) add(name);
  return out;
}

Json file_with_template(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  Json file = byte_level_file({});
  file["added_tokens"] = Json::array({added_token(300, "<s>", true), added_token(301, "</s>", true)});
  file["post_processor"] = template_of(before, after);
  return file;
}

TEST(HfTokenizer, ATemplateSurroundsTheText) {
  const auto tokenizer = make(file_with_template({"<s>"}, {"</s>"}));
  EXPECT_THAT(tokens_of(*tokenizer, "a"), ElementsAre("<s>", "a", "</s>"));
  EXPECT_THAT(tokens_of(*tokenizer, "a", {.add_special = false}), ElementsAre("a"));
  EXPECT_THAT(tokens_of(*tokenizer, ""), ElementsAre("<s>", "</s>"));
  EXPECT_EQ(tokenizer->bos(), 300);
  EXPECT_EQ(tokenizer->eos(), 301);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_TRUE(tokenizer->adds_eos());
  EXPECT_TRUE(tokenizer->is_end_of_generation(301));
}

TEST(HfTokenizer, TheTemplateMayComeAfterByteLevelInASequence) {
  Json file = file_with_template({"<s>"}, {});
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors", {{{"type", "ByteLevel"}, {"trim_offsets", true}}, file["post_processor"]}}};
  const auto tokenizer = make(file);
  EXPECT_THAT(tokens_of(*tokenizer, "a"), ElementsAre("<s>", "a"));
  EXPECT_FALSE(tokenizer->adds_eos());
}

TEST(HfTokenizer, TheConfigurationHasTheLastWordOnBosAndEos) {
  const auto with =
      make(file_with_template({}, {}), {.bos = "<s>", .eos = "</s>", .add_bos = true, .add_eos = true});
  EXPECT_THAT(tokens_of(*with, "a"), ElementsAre("<s>", "a", "</s>"));
  const auto without = make(file_with_template({"<s>"}, {"</s>"}),
                            {.bos = "<s>", .eos = "</s>", .add_bos = false, .add_eos = false});
  EXPECT_THAT(tokens_of(*without, "a"), ElementsAre("a"));
  EXPECT_EQ(without->bos(), 300);
  const auto once = make(file_with_template({"<s>"}, {}), {.bos = "<s>", .add_bos = true});
  EXPECT_THAT(tokens_of(*once, "a"), ElementsAre("<s>", "a")) << "never two of them";
}

TEST(HfTokenizer, SpecialIdsThatTheConfigurationGetsWrong) {
  const std::string file = file_with_template({}, {}).dump();
  EXPECT_EQ(error_of_text(file, {.bos = "<x>"}),
            "tokenizer_config.json: bos_token is '<x>', which is no token");
  EXPECT_EQ(error_of_text(file, {.add_eos = true}), "add_eos_token is true, but there is no eos_token");
}

}  // namespace
}  // namespace soli
