// Files of the kind tokenizer.json that want to do harm: a clear error that names the place, within bounded
// time and memory.

#include <gmock/gmock.h>

#include "format/hf/json.h"
#include "format/hf_tokenizer_test_support.h"
#include "format/tokenizer_spec.h"
#include "support/small_stack.h"

namespace soli {
namespace {

using namespace hf_test;
using testing::HasSubstr;
using testing::StartsWith;

/// A file that uses every member, for damage to be done to it.
Json whole_file() {
  Json file = byte_level_file({"a b", "Ġ a"});
  file["added_tokens"] = Json::array({added_token(300, "<s>", true), added_token(301, "</s>", true)});
  file["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "NFC"}}, {{"type", "Replace"}, {"pattern", {{"Regex", "\\s{2,}"}}}, {"content", " "}}}}};
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", "\\p{N}{1,3}"}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {300}}, {"tokens", {"<s>"}}}}}}};
  return file;
}

TEST(HfHostile, CutOffAnywhere) {
  const std::string file = whole_file().dump();
  ASSERT_EQ(error_of_text(file), "no error");
  for (size_t bytes = 0; bytes < file.size(); bytes += bytes < 300 ? 1 : 13) {
    EXPECT_THAT(error_of_text(file.substr(0, bytes)), HasSubstr("no JSON at byte"));
  }
  EXPECT_THAT(error_of_text(file + "x"), HasSubstr("no JSON at byte"));
}

TEST(HfHostile, EveryMemberOfAWrongType) {
  const Json file = whole_file();
  const Json flat = file.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    if (pointer.starts_with("/model/vocab/") && pointer.size() > 16) continue;  // a few of these will do
    for (const Json& other :
         {Json(), Json(true), Json(-1), Json(1.5), Json("x"), Json::array(), Json::object()}) {
      Json damaged = file;
      damaged[Json::json_pointer(pointer)] = other;
      tokenizer_error_of(damaged);  // an error or a tokenizer, and nothing worse
    }
  }
}

TEST(HfHostile, WrongTypesNameThePlace) {
  const auto with = [](const char* pointer, const Json& value) {
    Json file = whole_file();
    file[Json::json_pointer(pointer)] = value;
    return tokenizer_error_of(file);
  };
  EXPECT_EQ(with("/model/vocab/a", "7"), "model.vocab['a'] is '7'; a whole number is allowed");
  EXPECT_EQ(with("/model/vocab/a", Json::array()), "model.vocab['a'] is an array; a whole number is allowed");
  EXPECT_EQ(with("/model/merges/1", 7),
            "model.merges[1] is 7; a merge is a string, or an array of two strings");
  EXPECT_EQ(with("/model/merges/1", "ab"),
            "model.merges[1] is 'ab'; it must be two tokens with one blank between");
  EXPECT_EQ(with("/model/merges/1", "a b c"),
            "model.merges[1] is 'a b c'; it must be two tokens with one blank between");
  for (const char* half : {" ", "a ", " a"}) {
    EXPECT_THAT(with("/model/merges/1", half), HasSubstr("it must be two tokens with one blank between"));
  }
  EXPECT_EQ(with("/model/merges/1", Json::array({"", ""})), "model.merges[1] has a text that is empty");
  EXPECT_EQ(with("/model/merges/1", Json::array()), "model.merges[1] has 0 texts; a merge has two");
  EXPECT_EQ(with("/model/merges/1", "#version: 0.2"), "no error") << "a comment, as in the older merges.txt";
  EXPECT_EQ(with("/model/merges/1", Json::array({"a"})), "model.merges[1] has 1 texts; a merge has two");
  EXPECT_EQ(with("/model/merges/1", Json::array({"a", "b", "c"})), "model.merges[1] has more than two texts");
  EXPECT_EQ(with("/model/merges/1", Json::array({"a", 1})),
            "model.merges[1] is 1; a merge is a string, or an array of two strings");
  EXPECT_EQ(with("/model/merges", "x"), "model.merges is 'x'; an array is allowed");
  EXPECT_EQ(with("/model/vocab", Json::array()), "model.vocab is an array; an object is allowed");
  EXPECT_EQ(with("/model/byte_fallback", 1), "model.byte_fallback is 1; true or false is allowed");
  EXPECT_EQ(with("/model/type", "Unigram"), "model.type is 'Unigram'; 'BPE' is supported");
  EXPECT_EQ(with("/model/dropout", 0.1),
            "model.dropout is 0.1; null is supported: ids may not depend on chance");
  EXPECT_EQ(with("/added_tokens/1/id", 1.5),
            "added_tokens[1].id is 1.5; a whole number from 0 to 1048575 is allowed");
  EXPECT_EQ(with("/added_tokens/1/special", "no"),
            "added_tokens[1].special is 'no'; true or false is allowed");
  EXPECT_EQ(with("/added_tokens", Json::object()), "added_tokens is an object; an array is allowed");
  EXPECT_EQ(with("/pre_tokenizer/pretokenizers/0/pattern", "x"),
            "pre_tokenizer.pretokenizers[0].pattern is 'x'; an object with 'String' or 'Regex' is allowed");
  EXPECT_EQ(with("/normalizer/normalizers", Json()), "normalizer has no 'normalizers'");
  EXPECT_EQ(
      with("/post_processor/single/0/SpecialToken/id", "<x>"),
      "post_processor.single[0].SpecialToken.id is '<x>', which post_processor.special_tokens does not have");
  EXPECT_EQ(with("/post_processor/special_tokens/<s>/ids/0", 302),
            "post_processor.special_tokens.<s>.ids[0] is 302; a whole number from 0 to 301 is allowed");
  EXPECT_EQ(error_of_text("[]"), "the file is an array; an object is allowed");
  EXPECT_EQ(error_of_text("{}"), "the file has no 'model'");
  EXPECT_EQ(error_of_text("{\"model\": {}}"), "model has no 'vocab'");
}

TEST(HfHostile, IdsThatCannotBe) {
  const auto with = [](const char* token, const Json& id) {
    Json file = whole_file();
    file["model"]["vocab"][token] = id;
    return tokenizer_error_of(file);
  };
  EXPECT_EQ(with("xx", -1), "model.vocab['xx'] is -1; ids are 0 or more");
  EXPECT_EQ(with("xx", int64_t{1} << 40),
            "model.vocab['xx'] is 4294967296 or more; ids below 1048576 are allowed");
  EXPECT_EQ(with("xx", UINT64_MAX), "model.vocab['xx'] is 4294967296 or more; ids below 1048576 are allowed");
  EXPECT_EQ(with("xx", 1 << 20), "model.vocab['xx'] is 1048576; ids below 1048576 are allowed");
  EXPECT_EQ(with("xx", 1e3), "model.vocab['xx'] is 1000.0; a whole number is allowed");
  EXPECT_EQ(with("xx", 1), "model.vocab has the id 1 for 'ā' and for 'xx'");
  EXPECT_EQ(with("<s>", 299), "added_tokens[0].id is 300, but '<s>' has the id 299 too");
  Json file = whole_file();
  file["added_tokens"][1]["id"] = 300;
  EXPECT_EQ(tokenizer_error_of(file),
            "added_tokens[1].id is 300, which is that of '<s>'; its content is '</s>'");
  file["added_tokens"][1]["id"] = -5;
  EXPECT_THAT(tokenizer_error_of(file), StartsWith("added_tokens[1].id is -5;"));
  file["added_tokens"][1]["id"] = int64_t{1} << 40;
  EXPECT_THAT(tokenizer_error_of(file), StartsWith("added_tokens[1].id is 1099511627776;"));
  file = whole_file();
  file["added_tokens"][1]["content"] = "<s>";
  EXPECT_EQ(tokenizer_error_of(file), "added_tokens[1].id is 301, but '<s>' has the id 300 too");
}

TEST(HfHostile, MergesOfTokensThatAreNotThere) {
  Json file = whole_file();
  file["model"]["merges"].push_back("xx a");
  EXPECT_EQ(tokenizer_error_of(file),
            "model.merges[2] needs the token 'xx', which model.vocab does not have");
  file["model"]["merges"][2] = "a xx";
  EXPECT_EQ(tokenizer_error_of(file),
            "model.merges[2] needs the token 'xx', which model.vocab does not have");
  file["model"]["merges"][2] = "a a";
  EXPECT_EQ(tokenizer_error_of(file),
            "model.merges[2] needs the token 'aa', which model.vocab does not have");
  file["added_tokens"][0]["content"] = "aa";
  EXPECT_EQ(tokenizer_error_of(file), "model.merges[2] needs the token 'aa', which model.vocab does not have")
      << "added tokens do not count";
}

TEST(HfHostile, KeysThatStandThereTwice) {
  EXPECT_EQ(error_of_text(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})"),
            "model.vocab has 'a' twice, or added_tokens has it with another id");
  EXPECT_EQ(error_of_text(R"({"model": {"vocab": {}, "vocab": {}, "merges": []}})"),
            "model.vocab stands there twice");
  EXPECT_EQ(error_of_text(R"({"model": {"vocab": {"a": 0}, "merges": [], "merges": []}})"),
            "model.merges stands there twice");
  EXPECT_EQ(error_of_text(R"({"added_tokens": [{"id": 1, "id": 2}]})"),
            "added_tokens[0].id stands there twice");
}

TEST(HfHostile, NoTokensAtAll) {
  EXPECT_EQ(error_of_text(R"({"model": {"vocab": {}, "merges": []}})"), "the vocabulary has no tokens");
  const auto one = make(Json::parse(R"({"model": {"vocab": {"a": 0}, "merges": []}})"));
  EXPECT_EQ(tokens_of(*one, "aa"), (std::vector<std::string>{"a", "a"}));
  EXPECT_FALSE(one->bos());
  EXPECT_EQ(*one->encode(""), Ids());
}

TEST(HfHostile, DeepNesting) {
  on_small_stack([] {
    for (const char* open : {"[", "{\"a\":", "{\"model\":{\"x\":[", "{\"model\":{\"merges\":[[",
                             "{\"model\":{\"vocab\":{\"a\":["}) {
      std::string file;
      for (int i = 0; i < 10'000; ++i) file += open;
      EXPECT_NE(error_of_text(file), "no error") << open;
    }
  });
  Json normalizer = {{"type", "NFC"}};
  for (int i = 0; i < 28; ++i)
    normalizer = {{"type", "Sequence"}, {"normalizers", Json::array({normalizer})}};
  Json file = whole_file();
  file["normalizer"] = normalizer;
  EXPECT_EQ(tokenizer_error_of(file), "no error");
  for (int i = 0; i < 10; ++i)
    normalizer = {{"type", "Sequence"}, {"normalizers", Json::array({normalizer})}};
  file["normalizer"] = normalizer;
  EXPECT_EQ(tokenizer_error_of(file), "nested deeper than the 64 levels allowed");
}

TEST(HfHostile, TooManyOfAnything) {
  std::string many = "{\"x\": [";
  for (size_t i = 0; i < hf::kMaxJsonValues; ++i) many += "0,";
  EXPECT_EQ(error_of_text(many + "0]}"), "more than the 1048576 values allowed");
  std::string merges = R"({"model": {"vocab": {"a": 0, "aa": 1}, "merges": [)";
  for (size_t i = 0; i < kMaxVocabularyMerges; ++i) merges += "\"a a\",";
  EXPECT_EQ(error_of_text(merges + "\"a a\"]}}"), "model.merges has more than the 2097152 entries allowed");
  Json file = whole_file();
  file["normalizer"]["normalizers"] = Json::array();
  for (int i = 0; i < 65; ++i) file["normalizer"]["normalizers"].push_back({{"type", "NFC"}});
  EXPECT_EQ(tokenizer_error_of(file), "normalizer.normalizers has 65 entries; 64 are allowed");
  Json twice = {{"type", "Sequence"}, {"normalizers", {file["normalizer"], {{"type", "NFC"}}}}};
  twice["normalizers"][0]["normalizers"].erase(64);
  file["normalizer"] = twice;
  EXPECT_EQ(tokenizer_error_of(file), "normalizer.normalizers[1] is one step more than the 64 allowed");
  file = whole_file();
  file["model"]["vocab"][std::string(5000, 'x')] = 500;
  EXPECT_THAT(tokenizer_error_of(file), HasSubstr("has 5000 bytes; 4096 are allowed"));
  file = whole_file();
  file["added_tokens"][0]["content"] = std::string(300, 'x');
  EXPECT_EQ(tokenizer_error_of(file), "added_tokens[0].content has 300 bytes; 1 to 256 are allowed");
  file["added_tokens"][0]["content"] = "";
  EXPECT_EQ(tokenizer_error_of(file), "added_tokens[0].content has 0 bytes; 1 to 256 are allowed");
}

TEST(HfHostile, PatternsThatWouldNeverEnd) {
  for (const char* pattern : {"(a+)+$b", "(a|aa)+b", "(?:a*)*b", "(.*a){20}b", "a*b|a", "(?=(a+)+b)a"}) {
    Json file = whole_file();
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
    const auto tokenizer = make(file);
    const auto ids = tokenizer->encode(std::string(20'000, 'a'));
    if (!ids) {
      EXPECT_THAT(ids.error().message, StartsWith("a pattern gives up at byte")) << pattern;
    }
  }
}

TEST(HfHostile, PatternsThatAreNone) {
  Json file = whole_file();
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a";
  EXPECT_EQ(
      tokenizer_error_of(file),
      "pre_tokenizer.pretokenizers[0].pattern.Regex: a '(' is not closed at byte 2 of the pattern '(a'");
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?:(?:(?:a{1000}){1000}){1000}){1000}";
  EXPECT_THAT(tokenizer_error_of(file), HasSubstr("too large"));
}

TEST(HfHostile, LongRunsOfOneCharacterOnASmallStack) {
  Json file = byte_level_file({"A A", "AA AA", "Ġ Ġ", "ĠĠ ĠĠ", ". ."});
  file["normalizer"] = {{"type", "NFC"}};
  file["added_tokens"] = Json::array({added_token(300, "AB", false), added_token('A', "A", false)});
  file["added_tokens"][1]["single_word"] = true;
  const auto tokenizer = make(file);
  for (const std::string unit : {"A", ".", " ", "\n", "中", "\u0301", "9", "A."}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    on_small_stack([&] {
      const auto ids = tokenizer->encode(text);
      ASSERT_TRUE(ids) << ids.error().message;
      EXPECT_TRUE(tokenizer->decode(*ids) == text) << unit;
    });
  }
}

TEST(HfHostile, WhiteSpaceAroundAddedTokensIsLookedAtOnce) {
  Json file = byte_level_file({});
  file["added_tokens"] = Json::array({added_token(300, "\n", false), added_token('x', "x", false)});
  file["added_tokens"][0]["rstrip"] = true;
  file["added_tokens"][1]["lstrip"] = true;
  const auto tokenizer = make(file);
  const auto ids = tokenizer->encode(std::string(500'000, '\n') + std::string(500'000, ' ') + "x");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(ids->size(), 500'001u);
}

}  // namespace
}  // namespace soli
