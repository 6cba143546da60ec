#include "serve/openai/json_text.h"

#include <gmock/gmock.h>

namespace soli::openai {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& body, const JsonLimits& limits = {}) {
  const auto json = read_object(body, limits);
  if (json) return "accepted";
  EXPECT_EQ(json.error().type, kInvalidRequest);
  EXPECT_EQ(json.error().status, json.error().code == "body_too_large" ? 413 : 400);
  return json.error().message;
}

TEST(JsonText, ReadsWhatIsJson) {
  const std::string body = R"({"b":[1,-2,3.5,true,null,{"x":"é\u20ac\n"}],"a":{},"":[[]]})";
  const auto json = read_object(body, {});
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json, Json::parse(body));
  EXPECT_EQ(to_text(*json), to_text(Json::parse(body))) << "the order of members stays";
}

TEST(JsonText, RefusesWhatIsNot) {
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal("  "), HasSubstr("no JSON"));
  for (const char* const body :
       {"{", "{}}", "{\"a\":}", "{'a':1}", "{\"a\":1,}", "{\"a\":NaN}", "{\"a\":01}", "\xEF\xBB\xBF",
        "{\"a\":\"\n\"}", "{\"a\":\"\\ud800\"}", "{\"a\" 1}", "nul"}) {
    EXPECT_THAT(refusal(body), HasSubstr("no JSON")) << body;
  }
  for (const char* const body : {"[]", "1", "\"x\"", "null"}) {
    EXPECT_THAT(refusal(body), HasSubstr("an object is wanted")) << body;
  }
  EXPECT_THAT(refusal("{\"a\":\"\xC3\"}"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(std::string("{\"a\":1}\0", 8)), HasSubstr("no JSON"));
}

TEST(JsonText, RefusesTwinsAndNumbersOutOfRange) {
  EXPECT_THAT(refusal(R"({"a":1,"b":{"c":1,"c":2}})"), HasSubstr("'c' stands there twice"));
  EXPECT_THAT(refusal(R"({"a":1,"\u0061":2})"), HasSubstr("'a' stands there twice"));
  EXPECT_THAT(refusal(R"({"a":1e309})"), HasSubstr("out of range"));
  EXPECT_THAT(refusal(R"({"a":[-1e999]})"), HasSubstr("out of range"));
  EXPECT_EQ(refusal(R"({"a":1e-400,"b":{"a":1},"c":123456789012345678901234567890})"), "accepted");
}

TEST(JsonText, NothingIsBuiltBeyondTheLimits) {
  const JsonLimits limits{.bytes = 1000, .depth = 3, .values = 10, .members = 4, .key_bytes = 5};
  EXPECT_THAT(refusal("{\"a\":\"" + std::string(1000, 'x') + "\"}", limits), HasSubstr("allowed are 1000"));
  EXPECT_EQ(refusal(R"({"a":[[]]})", limits), "accepted");
  EXPECT_THAT(refusal(R"({"a":[[[]]]})", limits), HasSubstr("3 levels"));
  EXPECT_THAT(refusal(R"({"a":[1,2,3,4,5,6,7,8,9]})", limits), HasSubstr("more than 10 values"));
  EXPECT_THAT(refusal(R"({"a":1,"b":1,"c":1,"d":1,"e":1})", limits), HasSubstr("more than 4 members"));
  EXPECT_THAT(refusal(R"({"abcdef":1})", limits), HasSubstr("6 bytes"));
  EXPECT_THAT(refusal("{\"a\":" + std::string(10000, '[')), HasSubstr("64 levels"));
  EXPECT_THAT(refusal(std::string(100000, '{')), HasSubstr("no JSON"));
}

TEST(JsonText, ManyMembersTakeLinearTime) {
  std::string body = "{";
  for (int i = 0; i < 200000; ++i) body += fmt::format("{}\"k{}\":0", i == 0 ? "" : ",", i);
  EXPECT_EQ(refusal(body + "}", {.members = 1 << 20}), "accepted");
}

}  // namespace
}  // namespace soli::openai
