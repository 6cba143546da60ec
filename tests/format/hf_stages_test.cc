// Each normalizer, pre-tokenizer and decoder of a tokenizer.json by itself.

#include <gmock/gmock.h>

#include "format/detokenizer.h"
#include "format/hf/decoder.h"
#include "format/hf/normalizer.h"
#include "format/hf/pretokenizer.h"
#include "format/hf_tokenizer_test_support.h"

namespace soli {
namespace {

using namespace hf_test;
using testing::ElementsAre;
using testing::HasSubstr;

std::string normalize(const char* json, const std::string& text) {
  const nlohmann::json value = nlohmann::json::parse(json);
  const auto normalizer = hf::Normalizer::read({value, "normalizer"});
  if (!normalizer) return normalizer.error().message;
  const auto out = normalizer->apply(text);
  return out ? *out : out.error().message;
}

std::vector<std::string> split(const char* json, const std::string& text, bool begins = true) {
  const nlohmann::json value = nlohmann::json::parse(json);
  const auto pretokenizer = hf::PreTokenizer::read({value, "pre_tokenizer"});
  if (!pretokenizer) return {pretokenizer.error().message};
  const auto words = pretokenizer->apply(text, begins);
  if (!words) return {words.error().message};
  std::vector<std::string> out;
  for (const TextSpan part : words->parts) out.emplace_back(part.of(words->text));
  return out;
}

TEST(HfNormalizer, NormalForms) {
  const std::string text = "e\u0301 \u00E9 \u1E9B\u0323 \uAC00 \uFB01";
  EXPECT_EQ(normalize(R"({"type": "NFC"})", text), "\u00E9 \u00E9 \u1E9B\u0323 \uAC00 \uFB01");
  EXPECT_EQ(normalize(R"({"type": "NFD"})", text), "e\u0301 e\u0301 \u017F\u0323\u0307 \u1100\u1161 \uFB01");
  EXPECT_EQ(normalize(R"({"type": "NFKC"})", text), "\u00E9 \u00E9 \u1E69 \uAC00 fi");
  EXPECT_EQ(normalize(R"({"type": "NFKD"})", text), "e\u0301 e\u0301 s\u0323\u0307 \u1100\u1161 fi");
  EXPECT_EQ(normalize(R"({"type": "NFC"})", "\u0301a\u0316\u0301b"), "\u0301\u00E1\u0316b")
      << "order of marks";
  EXPECT_EQ(normalize(R"({"type": "NFC"})", "\u212B\u0958\u2126"), "\u00C5\u0915\u093C\u03A9")
      << "exclusions";
}

TEST(HfNormalizer, LongRunsOfMarksTakeNoQuadraticTime) {
  std::string text = "a", sorted = "a";
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0316";
  for (int i = 0; i < 200'000; ++i) sorted += "\u0316";
  for (int i = 0; i < 200'000; ++i) sorted += "\u0301";
  EXPECT_EQ(normalize(R"({"type": "NFD"})", text), sorted);
}

TEST(HfNormalizer, Letters) {
  EXPECT_EQ(normalize(R"({"type": "Lowercase"})", "ÀÉ Σ\u0130\u1E9E"), "àé σi\u0307ß");
  EXPECT_EQ(normalize(R"({"type": "StripAccents"})", "e\u0301\u0903\u20DDé"), "eé");
}

TEST(HfNormalizer, Edges) {
  EXPECT_EQ(normalize(R"({"type": "Strip", "strip_left": true, "strip_right": false})", " \u00A0a "), "a ");
  EXPECT_EQ(normalize(R"({"type": "Strip", "strip_left": true, "strip_right": true})", "\u3000\t\n"), "");
  EXPECT_EQ(normalize(R"({"type": "Prepend", "prepend": "▁"})", "a"), "▁a");
  EXPECT_EQ(normalize(R"({"type": "Prepend", "prepend": "▁"})", ""), "");
}

TEST(HfNormalizer, Replacements) {
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})", " a  b"),
            "▁a▁▁b");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"String": "."}, "content": ""})", "a.b"), "ab");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " $0"})", "a   b c"),
            "a $0b c");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "-"})", "axb"), "-a-b-");
}

TEST(HfNormalizer, Sequences) {
  EXPECT_EQ(normalize(R"({"type": "Sequence", "normalizers": [
                          {"type": "NFKD"}, {"type": "Sequence", "normalizers": [{"type": "StripAccents"}]},
                          {"type": "Prepend", "prepend": "_"}]})",
                      "\u00E9\u2460"),
            "_e1");
  EXPECT_EQ(normalize(R"({"type": "Sequence", "normalizers": []})", "a"), "a");
}

TEST(HfNormalizer, OthersAreNamed) {
  EXPECT_EQ(
      normalize(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]})", ""),
      "normalizer.normalizers[1].type is 'Nmt'; supported are Lowercase, NFC, NFD, NFKC, NFKD, Prepend, "
      "Replace, Sequence, Strip and StripAccents");
  EXPECT_EQ(normalize(R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})", ""),
            "normalizer.pattern.String is ''; a text that is not empty is allowed");
  EXPECT_EQ(normalize(R"({"type": "Prepend"})", ""), "normalizer has no 'prepend'");
}

TEST(HfNormalizer, TextsDoNotGrowWithoutBound) {
  EXPECT_THAT(normalize((R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" +
                         std::string(4096, 'a') + R"("})")
                            .c_str(),
                        std::string(10'000, 'a')),
              HasSubstr("the text grows to more than the"));
}

TEST(HfPreTokenizer, ByteLevel) {
  EXPECT_THAT(split(R"({"type": "ByteLevel", "add_prefix_space": false})", "Hi  there 42é'll"),
              ElementsAre("Hi", "Ġ", "Ġthere", "Ġ42", "Ã©", "'ll"));
  EXPECT_THAT(split(R"({"type": "ByteLevel", "add_prefix_space": true})", "Hi"), ElementsAre("ĠHi"));
  EXPECT_THAT(split(R"({"type": "ByteLevel", "add_prefix_space": true})", " Hi"), ElementsAre("ĠHi"));
  EXPECT_THAT(split(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})", "a b\n"),
              ElementsAre("aĠbĊ"));
}

TEST(HfPreTokenizer, SplitBehaviors) {
  const auto with = [](const char* behavior, const char* invert) {
    const std::string json = std::string(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")") +
                             behavior + R"(", "invert": )" + invert + "}";
    return split(json.c_str(), "the-final--countdown");
  };
  EXPECT_THAT(with("Removed", "false"), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(with("Isolated", "false"), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(with("MergedWithPrevious", "false"), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(with("MergedWithNext", "false"), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(with("Contiguous", "false"), ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(with("Removed", "true"), ElementsAre("-", "-", "-"));
  EXPECT_THAT(with("MergedWithPrevious", "true"), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(with("MergedWithNext", "true"), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(with("Contiguous", "true"), ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(with("Merged", "true"),
              ElementsAre(HasSubstr("pre_tokenizer.behavior is 'Merged'; allowed are")));
}

TEST(HfPreTokenizer, SplitByRegex) {
  EXPECT_THAT(
      split(R"({"type": "Split", "pattern": {"Regex": "\\d{1,3}"}, "behavior": "Isolated"})", "ab12345c"),
      ElementsAre("ab", "123", "45", "c"));
  EXPECT_THAT(split(R"({"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated"})", "aé"),
              ElementsAre("a", "é"));
}

TEST(HfPreTokenizer, CharactersOfAKind) {
  EXPECT_THAT(split(R"({"type": "Digits", "individual_digits": true})", "a12Ⅳb"),
              ElementsAre("a", "1", "2", "Ⅳ", "b"));
  EXPECT_THAT(split(R"({"type": "Digits", "individual_digits": false})", "a12½b"),
              ElementsAre("a", "12½", "b"));
  EXPECT_THAT(split(R"({"type": "Punctuation"})", "a+b。。"), ElementsAre("a", "+", "b", "。", "。"));
  EXPECT_THAT(split(R"({"type": "Punctuation", "behavior": "Removed"})", "a+b€"), ElementsAre("a", "b€"));
  EXPECT_THAT(split(R"({"type": "Whitespace"})", "a_b+=\u00A0c"), ElementsAre("a_b", "+=", "c"));
  EXPECT_THAT(split(R"({"type": "WhitespaceSplit"})", " a+b\u3000\tc"), ElementsAre("a+b", "c"));
}

TEST(HfPreTokenizer, Metaspace) {
  EXPECT_THAT(split(R"({"type": "Metaspace", "replacement": "▁"})", "Hey  you"),
              ElementsAre("▁Hey", "▁", "▁you"));
  EXPECT_THAT(split(R"({"type": "Metaspace", "replacement": "▁"})", " Hey"), ElementsAre("▁Hey"));
  EXPECT_THAT(split(R"({"type": "Metaspace", "prepend_scheme": "never"})", "Hey you"),
              ElementsAre("Hey", "▁you"));
  EXPECT_THAT(split(R"({"type": "Metaspace", "add_prefix_space": false})", "Hey"), ElementsAre("Hey"));
  EXPECT_THAT(split(R"({"type": "Metaspace", "split": false})", "Hey you"), ElementsAre("▁Hey▁you"));
  EXPECT_THAT(split(R"({"type": "Metaspace", "prepend_scheme": "first"})", "Hey you", true),
              ElementsAre("▁Hey", "▁you"));
  EXPECT_THAT(split(R"({"type": "Metaspace", "prepend_scheme": "first"})", "Hey you", false),
              ElementsAre("Hey", "▁you"));
  EXPECT_THAT(split(R"({"type": "Metaspace", "prepend_scheme": "last"})", ""),
              ElementsAre("pre_tokenizer.prepend_scheme is 'last'; allowed are always, first and never"));
}

TEST(HfPreTokenizer, OnlyTheFirstPartOfTheTextIsFirst) {
  EXPECT_THAT(split(R"({"type": "Sequence", "pretokenizers": [
                        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "prepend_scheme": "first"}]})",
                    "a b"),
              ElementsAre("▁a", "b"));
  EXPECT_THAT(split(R"({"type": "Sequence", "pretokenizers": [
                        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "prepend_scheme": "first"}]})",
                    " a b"),
              ElementsAre("a", "b"));
  EXPECT_THAT(split(R"({"type": "Sequence", "pretokenizers": [
                        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "prepend_scheme": "always"}]})",
                    "a b"),
              ElementsAre("▁a", "▁b"));
}

TEST(HfPreTokenizer, OthersAreNamed) {
  EXPECT_THAT(
      split(R"({"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}]})", ""),
      ElementsAre("pre_tokenizer.pretokenizers[0].type is 'BertPreTokenizer'; supported are ByteLevel, "
                  "Digits, Metaspace, Punctuation, Sequence, Split, Whitespace and WhitespaceSplit"));
}

/// The text that these tokens become, with the decoder of a file.
std::string decode(const char* decoder, const std::vector<std::string>& tokens, DecodeOptions options = {}) {
  Json file = file_of(tokens, {});
  if (*decoder != '\0') file["decoder"] = Json::parse(decoder);
  file["added_tokens"] = Json::array({added_token(1000, "<s>", true)});
  const auto tokenizer = hf::make_tokenizer(file.dump(), {});
  if (!tokenizer) return tokenizer.error().message;
  Ids ids = {1000};
  for (const std::string& token : tokens) ids.push_back(*(*tokenizer)->find_token(token));
  const std::string whole = (*tokenizer)->decode(ids, options);
  Detokenizer stream(**tokenizer, options);
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.push(id);
  streamed += stream.flush();
  EXPECT_EQ(streamed, whole);
  return whole;
}

TEST(HfDecoder, ByteLevel) {
  EXPECT_EQ(decode(R"({"type": "ByteLevel"})", {"Hi", "Ġthere", "Ã", "©", "Ċ"}), "Hi thereé\n");
  EXPECT_EQ(decode(R"({"type": "ByteLevel"})", {"Ġ中"}), "Ġ中") << "a token that is none of bytes";
}

constexpr const char* kSentencePiece = R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";

TEST(HfDecoder, AsLlamaAndMistralHaveIt) {
  EXPECT_EQ(decode(kSentencePiece, {"▁Hi", "▁▁there", "<0xC3>", "<0xA9>", "<0xZZ>"}), "Hi  thereé<0xZZ>");
  EXPECT_EQ(decode(kSentencePiece, {"▁▁Hi"}), " Hi") << "one blank only";
  EXPECT_EQ(decode(kSentencePiece, {"▁Hi"}, {.render_special = true}), "<s> Hi");
  EXPECT_EQ(decode(kSentencePiece, {"▁Hi"}, {.begins_text = false}), " Hi");
}

TEST(HfDecoder, Metaspace) {
  EXPECT_EQ(decode(R"({"type": "Metaspace", "replacement": "▁"})", {"▁Hey", "▁you"}), "Hey you");
  EXPECT_EQ(decode(R"({"type": "Metaspace", "prepend_scheme": "never"})", {"▁Hey"}), " Hey");
}

TEST(HfDecoder, StripOfEachToken) {
  EXPECT_EQ(decode(R"({"type": "Strip", "content": "H", "start": 1, "stop": 2})", {"HHi", "aHHH"}), "HiaH");
}

TEST(HfDecoder, WithoutOneTokensStandApart) { EXPECT_EQ(decode("", {"a", "b"}), "a b"); }

TEST(HfDecoder, OthersAreNamed) {
  EXPECT_EQ(
      decode(R"({"type": "CTC"})", {}),
      "decoder.type is 'CTC'; supported are ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence and "
      "Strip");
  EXPECT_EQ(decode(R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteLevel"}]})", {}),
            "decoder.decoders[1] comes after Fuse, where only a Strip of one blank is supported");
}

}  // namespace
}  // namespace soli
