// Endpoints that no engine is needed for, errors as bodies, and embeddings.

#include "serve/openai/endpoints.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "serve/openai/answer.h"
#include "support/served.h"

namespace soli::openai {
namespace {

using testing::HasSubstr;

std::string text_of(const ApiResult<std::string>& result) {
  return result ? *result : result.error().code + " " + result.error().param + ": " + result.error().message;
}

TEST(Tokens, ComeBackFromIds) {
  const Served served;
  EXPECT_EQ(text_of(tokenize(R"({"content":"a<|end|>"})", served.model)),
            R"({"tokens":[97,60,124,101,110,100,124,62]})");
  EXPECT_EQ(text_of(tokenize(R"({"content":"a<|end|>","parse_special":true})", served.model)),
            R"({"tokens":[97,259]})");
  EXPECT_EQ(text_of(tokenize(R"({"content":"","add_special":true})", served.model)), R"({"tokens":[]})");
  EXPECT_EQ(text_of(tokenize(R"({"content":"é","with_pieces":true})", served.model)),
            R"({"tokens":[{"id":195,"piece":[195]},{"id":169,"piece":[169]}]})");
  EXPECT_EQ(text_of(tokenize(R"({"content":"e","with_pieces":true})", served.model)),
            R"({"tokens":[{"id":101,"piece":"e"}]})");
  EXPECT_EQ(text_of(detokenize(R"({"tokens":[256,195,169,259]})", served.model)),
            R"({"content":"helloé<|end|>"})");
  EXPECT_EQ(text_of(detokenize(R"({"tokens":[195,259],"render_special":false})", served.model)),
            "{\"content\":\"\uFFFD\"}");
  EXPECT_EQ(text_of(detokenize(R"({"tokens":[]})", served.model)), R"({"content":""})");
}

TEST(Tokens, RefuseWhatIsNone) {
  const Served served;
  EXPECT_THAT(text_of(tokenize(R"({})", served.model)), HasSubstr("missing_required_parameter content"));
  EXPECT_THAT(text_of(tokenize(R"({"content":7})", served.model)), HasSubstr("invalid_value content"));
  EXPECT_THAT(text_of(tokenize(R"({"content":"a","x":7})", served.model)), HasSubstr("unknown_parameter x"));
  EXPECT_THAT(text_of(detokenize(R"({})", served.model)), HasSubstr("missing_required_parameter tokens"));
  EXPECT_THAT(text_of(detokenize(R"({"tokens":"a"})", served.model)), HasSubstr("invalid_value tokens"));
  EXPECT_THAT(text_of(detokenize(R"({"tokens":[0,-1]})", served.model)),
              HasSubstr("invalid_value tokens[1]"));
  EXPECT_THAT(text_of(detokenize(R"({"tokens":[260]})", served.model)), HasSubstr("is 260"));
}

TEST(Models, AreListed) {
  const Served served;
  const ServedModel* const models[] = {&served.model};
  EXPECT_EQ(models_body(models),
            R"({"object":"list","data":[{"id":"tiny","object":"model","created":1700000000,)"
            R"("owned_by":"soli","context_length":64}]})");
  EXPECT_THAT(text_of(model_body("tiny", models)), HasSubstr(R"("id":"tiny")"));
  const auto other = model_body("o\nther", models);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().status, 404);
  EXPECT_THAT(other.error().message, HasSubstr("'o\\nther'"));
}

TEST(Props, ShowWhatIsInEffect) {
  Served served;
  const Json props = Json::parse(props_body(served.model));
  EXPECT_EQ(props["context_length"], 64);
  EXPECT_EQ(props["experts"]["layers"], Json({0, 1}));
  EXPECT_EQ(props["experts"]["per_token"], 2);
  EXPECT_EQ(props["experts"]["per_token_max"], 4);
  EXPECT_EQ(props["chat_template"], kTemplate);
  EXPECT_EQ(props["eos_token"], "<|end|>");
  EXPECT_EQ(props["bos_token"], nullptr);
  EXPECT_EQ(props["limits"]["top_logprobs"], 20);
  served.model.chat_template = nullptr;
  served.spec().router = {};
  EXPECT_EQ(Json::parse(props_body(served.model))["experts"], nullptr);
  EXPECT_EQ(Json::parse(props_body(served.model))["chat_template"], nullptr);
}

TEST(Errors, HaveTheShapeOfOpenAi) {
  EXPECT_EQ(error_body(bad_request("unknown_parameter", "x", "'x' is {}", "\"odd\"")),
            R"({"error":{"message":"'x' is \"odd\"","type":"invalid_request_error","param":"x",)"
            R"("code":"unknown_parameter"}})");
  EXPECT_EQ(
      error_body(run_error({ErrorKind::kMalformed, "bad \xFF"})),
      "{\"error\":{\"message\":\"bad \uFFFD\",\"type\":\"server_error\",\"param\":null,\"code\":null}}");
  EXPECT_EQ(submit_error({ErrorKind::kLimit, "the queue is full"}).status, 429);
  EXPECT_EQ(submit_error({ErrorKind::kInvalidArgument, "x"}).status, 400);
  EXPECT_EQ(run_error({ErrorKind::kLimit, "x"}).status, 503);
  EXPECT_EQ(run_error({ErrorKind::kMalformed, "x"}).status, 500);
  EXPECT_EQ(run_error({ErrorKind::kIo, "/home/x/model.gguf: worn out"}).message,
            "the model could not be read");
  EXPECT_EQ(ending_error().status, 503);
}

TEST(Embeddings, RefuseWhatTheyDoNotDo) {
  const Served served;
  const auto refusal = [&](const std::string& body) {
    const auto job = read_embedding(body, served.model);
    return job ? "accepted" : job.error().code + " " + job.error().param + ": " + job.error().message;
  };
  EXPECT_THAT(refusal(R"({})"), HasSubstr("missing_required_parameter input"));
  EXPECT_THAT(refusal(R"({"input":""})"), HasSubstr("invalid_value input"));
  EXPECT_THAT(refusal(R"({"input":["a",""]})"), HasSubstr("invalid_value input[1]"));
  EXPECT_THAT(refusal(R"({"input":[-1]})"), HasSubstr("invalid_value input[0]"));
  EXPECT_THAT(refusal(R"({"input":"a","encoding_format":"hex"})"), HasSubstr("'float', 'base64'"));
  EXPECT_THAT(refusal(R"({"input":"a","dimensions":3})"), HasSubstr("or send 4"));
  EXPECT_THAT(refusal(R"({"input":"a","pooling":"max"})"), HasSubstr("'mean', 'last'"));
  EXPECT_THAT(refusal(R"({"input":"a","n":3})"), HasSubstr("unknown_parameter n"));
  EXPECT_THAT(refusal(R"({"input":"a","model":"x"})"), HasSubstr("model_not_found"));
  EXPECT_THAT(refusal("{\"input\":\"" + std::string(65, 'x') + "\"}"),
              AllOf(HasSubstr("context_length_exceeded"), HasSubstr("65"), HasSubstr("64")));
  EXPECT_EQ(refusal(R"({"input":"a","dimensions":4,"user":"u","encoding_format":null,"model":"tiny"})"),
            "accepted");
  EXPECT_EQ(refusal("{\"input\":\"" + std::string(64, 'x') + "\"}"), "accepted");
  EXPECT_EQ(read_embedding(R"({"input":["a","hello"]})", served.model)->requests.size(), 2U);
  EXPECT_EQ(read_embedding(R"({"input":[[1,2],[3]]})", served.model)->requests[0].prompt.size(), 2U);
  EXPECT_EQ(read_embedding(R"({"input":"a"})", served.model)->requests[0].task, Task::kEmbedMean);
  EXPECT_EQ(read_embedding(R"({"input":"a","pooling":"last"})", served.model)->requests[0].task,
            Task::kEmbedLast);
}

/// The inverse of what is tested, digit by digit.
std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(digit));
    n_bits += 6;
    if (n_bits >= 8) bytes.push_back(static_cast<char>(bits >> (n_bits -= 8) & 255));
  }
  return bytes;
}

TEST(Embeddings, AreNormalisedInBothFormats) {
  const Served served;
  for (const size_t hidden : {1, 2, 3, 4}) {
    std::vector<float> vector(hidden, -2);
    vector[0] = 1.5F;
    auto job = read_embedding(R"({"input":["ab","c"]})", served.model).value();
    const Json floats = Json::parse(embedding_body(served.model, job, {vector, std::vector<float>(hidden)}));
    EXPECT_EQ(floats["object"], "list");
    EXPECT_EQ(floats["usage"], Json({{"prompt_tokens", 3}, {"total_tokens", 3}}));
    EXPECT_EQ(floats["data"][1]["index"], 1);
    EXPECT_EQ(floats["data"][1]["embedding"], std::vector<float>(hidden)) << "zeros have no direction";
    const auto numbers = floats["data"][0]["embedding"].get<std::vector<float>>();
    double squares = 0;
    for (const float x : numbers) squares += static_cast<double>(x) * static_cast<double>(x);
    EXPECT_NEAR(squares, 1, 1e-6);
    EXPECT_NEAR(numbers[0], 1.5 / std::sqrt(1.5 * 1.5 + 4.0 * (static_cast<double>(hidden) - 1)), 1e-6);
    job.base64 = true;
    const Json text = Json::parse(embedding_body(served.model, job, {vector, vector}));
    const std::string encoded = text["data"][0]["embedding"];
    EXPECT_EQ(encoded.size() % 4, 0U);
    const std::string bytes = from_base64(encoded);
    ASSERT_EQ(bytes.size(), hidden * sizeof(float));
    EXPECT_EQ(std::memcmp(bytes.data(), numbers.data(), bytes.size()), 0);
  }
}

}  // namespace
}  // namespace soli::openai
