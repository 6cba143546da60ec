// Events of an engine that is not there become chunks, and the whole answer.

#include "serve/openai/answer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/rng.h"
#include "base/utf8.h"
#include "serve/openai/endpoints.h"
#include "support/served.h"

namespace soli::openai {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TextJob chat_job(const std::string& members = "") {
  static const Served served;
  return read_chat("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" + members + "}", served.model, {})
      .value();
}

TextJob completion_job(const std::string& members) {
  static const Served served;
  return read_completion("{" + members + "}", served.model, {}).value();
}

StreamEvent token_event(int32_t token) { return {.kind = StreamEvent::Kind::kToken, .token = token}; }

StreamEvent end_event(FinishReason reason) {
  return {.kind = StreamEvent::Kind::kFinished, .reason = reason};
}

/// An answer with what it sent.
struct Fed {
  Served served;
  TextJob job;
  Answer answer;
  std::vector<std::string> payloads = {};

  explicit Fed(TextJob wanted) : job(std::move(wanted)), answer(served.model, job, "id-1", 1234) {}

  bool push(size_t choice, StreamEvent event) { return answer.push(choice, std::move(event), payloads); }
  void push_text(size_t choice, std::string_view text) {
    for (const int32_t id : bytes_of(text)) push(choice, token_event(id));
  }
  std::vector<Json> chunks() const {
    std::vector<Json> chunks;
    for (const std::string& payload : payloads) chunks.push_back(Json::parse(payload));
    return chunks;
  }
};

TEST(ChatAnswer, AWholeOne) {
  Fed fed(chat_job());
  EXPECT_TRUE(fed.push(0, token_event(kHello)));
  EXPECT_TRUE(fed.push(0, token_event(kEnd)));
  EXPECT_FALSE(fed.answer.done());
  EXPECT_FALSE(fed.push(0, end_event(FinishReason::kEndToken)));
  EXPECT_TRUE(fed.answer.done());
  EXPECT_TRUE(fed.payloads.empty());
  EXPECT_EQ(fed.answer.body(),
            R"({"id":"id-1","object":"chat.completion","created":1234,"model":"tiny","choices":[{"index":0,)"
            R"("message":{"role":"assistant","content":"hello","refusal":null},"logprobs":null,)"
            R"("finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":2,"total_tokens":22,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(ChatAnswer, ChunksInTheirOrder) {
  Fed fed(chat_job(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  fed.push(0, token_event(kHello));
  fed.push(0, token_event(kEuroBegin));
  fed.push(0, token_event(0xAC));
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
  fed.answer.end(fed.payloads);
  const std::string head = R"({"id":"id-1","object":"chat.completion.chunk","created":1234,"model":"tiny",)";
  const auto chunk = [&](const std::string& delta, const std::string& reason) {
    return head + R"("choices":[{"index":0,"delta":)" + delta + R"(,"logprobs":null,"finish_reason":)" +
           reason + R"(}],"usage":null})";
  };
  EXPECT_THAT(fed.payloads,
              ElementsAre(chunk(R"({"role":"assistant","content":"","refusal":null})", "null"),
                          chunk(R"({"content":"hello"})", "null"), chunk(R"({"content":"€"})", "null"),
                          chunk("{}", R"("length")"),
                          head + R"("choices":[],"usage":{"prompt_tokens":20,"completion_tokens":3,)"
                                 R"("total_tokens":23,"prompt_tokens_details":{"cached_tokens":0}}})"));
}

TEST(ChatAnswer, WithoutUsageNoWordOfIt) {
  Fed fed(chat_job(R"(,"stream":true)"));
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
  fed.answer.end(fed.payloads);
  EXPECT_EQ(fed.payloads.size(), 2U) << "the role and the end";
  for (const Json& chunk : fed.chunks()) EXPECT_FALSE(chunk.contains("usage"));
}

TEST(ChatAnswer, NoTokensAreALength) {
  Fed fed(chat_job(R"(,"max_tokens":0)"));
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
  const Json answer = Json::parse(fed.answer.body());
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
}

TEST(ChatAnswer, AStopStringEndsTheChoice) {
  Fed fed(chat_job(R"(,"stop":["DEFGHIJ"],"stream":true)"));
  fed.push_text(0, "ABCDEFGHI");
  EXPECT_FALSE(fed.push(0, token_event('J'))) << "its stream may be closed";
  const size_t n = fed.payloads.size();
  EXPECT_EQ(Json::parse(fed.payloads.back())["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(fed.answer.done()) << "the engine has yet to say what the prompt cost";
  fed.push(0, token_event('K'));
  EXPECT_FALSE(fed.push(0, end_event(FinishReason::kCancelled)));
  EXPECT_TRUE(fed.answer.done());
  EXPECT_FALSE(fed.answer.error()) << "it was our wish";
  EXPECT_EQ(fed.payloads.size(), n);
  EXPECT_EQ(fed.answer.usage().completion_tokens, 10);
}

TEST(ChatAnswer, ChoicesRunSideBySide) {
  for (const bool stream : {false, true}) {
    Fed fed(chat_job(stream ? R"(,"n":2,"stream":true)" : R"(,"n":2)"));
    fed.push_text(1, "b");
    fed.push_text(0, "a");
    fed.push(1, end_event(FinishReason::kMaxNewTokens));
    EXPECT_FALSE(fed.answer.done());
    fed.push_text(0, "c");
    fed.push(0, end_event(FinishReason::kEndToken));
    EXPECT_TRUE(fed.answer.done());
    EXPECT_EQ(fed.answer.usage().prompt_tokens, 20) << "one prompt";
    EXPECT_EQ(fed.answer.usage().completion_tokens, 3);
    if (!stream) {
      const Json answer = Json::parse(fed.answer.body());
      EXPECT_EQ(answer["choices"][0]["message"]["content"], "ac");
      EXPECT_EQ(answer["choices"][0]["index"], 0);
      EXPECT_EQ(answer["choices"][1]["message"]["content"], "b");
      EXPECT_EQ(answer["choices"][1]["finish_reason"], "length");
      continue;
    }
    std::vector<int> indices;
    for (const Json& chunk : fed.chunks()) indices.push_back(chunk["choices"][0]["index"]);
    EXPECT_THAT(indices, ElementsAre(1, 1, 0, 0, 1, 0, 0)) << "role, text, role, text, end, text, end";
  }
}

TEST(ChatAnswer, AFailureIsAnErrorInBothModes) {
  for (const bool stream : {false, true}) {
    Fed fed(chat_job(stream ? R"(,"stream":true)" : ""));
    fed.push_text(0, "a");
    StreamEvent failed = end_event(FinishReason::kFailed);
    failed.error = Error{ErrorKind::kMalformed, "not finite"};
    EXPECT_FALSE(fed.push(0, std::move(failed)));
    EXPECT_TRUE(fed.answer.done());
    ASSERT_TRUE(fed.answer.error());
    EXPECT_EQ(fed.answer.error()->status, 500);
    EXPECT_EQ(fed.payloads.size(), stream ? 3U : 0U);
    if (stream) {
      EXPECT_THAT(fed.payloads.back(), HasSubstr(R"({"error":{"message":"not finite")"));
    }
  }
  Fed cancelled(chat_job());
  cancelled.push(0, end_event(FinishReason::kCancelled));
  EXPECT_EQ(cancelled.answer.error()->status, 503);
}

StreamEvent with_logprobs(int32_t token, double logprob, std::vector<TokenLogprob> top) {
  StreamEvent event = token_event(token);
  event.logprob = logprob;
  event.top_logprobs = std::move(top);
  return event;
}

TEST(ChatAnswer, LogprobsHaveTheirShape) {
  Fed fed(chat_job(R"(,"logprobs":true,"top_logprobs":2)"));
  fed.push(0, with_logprobs('a', -0.5, {{'a', -0.5}, {kEnd, -1.25}}));
  fed.push(0, with_logprobs(kEuroBegin, -7.5, {{'a', -0.5}, {'b', -1}}));
  fed.push(0, with_logprobs(0xAC, -INFINITY, {{'a', 0}, {'b', -1e300}}));
  fed.push(0, with_logprobs(kEnd, -0.25, {{kEnd, -0.25}, {'b', -1}}));
  fed.push(0, end_event(FinishReason::kEndToken));
  const Json choice = Json::parse(fed.answer.body())["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "a€");
  EXPECT_EQ(choice["logprobs"]["refusal"], nullptr);
  const Json& content = choice["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3U) << "the end token is no part of the content";
  EXPECT_EQ(
      to_text(content[0]),
      R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]},)"
      R"({"token":"<|end|>","logprob":-1.25,"bytes":[60,124,101,110,100,124,62]}]})");
  EXPECT_EQ(content[1]["bytes"], Json({0xE2, 0x82}));
  EXPECT_EQ(content[1]["top_logprobs"].size(), 3U) << "the chosen one is always there";
  EXPECT_EQ(content[1]["top_logprobs"][2]["logprob"], -7.5);
  EXPECT_EQ(content[2]["logprob"], -9999.0);
  EXPECT_EQ(content[2]["top_logprobs"][1]["logprob"], -9999.0);
}

TEST(ChatAnswer, LogprobsWithoutTopOnesAndOfNoTokens) {
  Fed fed(chat_job(R"(,"logprobs":true)"));
  fed.push(0, with_logprobs('a', -0.5, {}));
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
  const Json logprobs = Json::parse(fed.answer.body())["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["content"][0]["top_logprobs"], Json::array());
  Fed none(chat_job(R"(,"logprobs":true)"));
  none.push(0, end_event(FinishReason::kMaxNewTokens));
  EXPECT_EQ(Json::parse(none.answer.body())["choices"][0]["logprobs"]["content"], Json::array());
}

TEST(CompletionAnswer, AWholeOneForEachPrompt) {
  Fed fed(completion_job(R"("prompt":["a","bc"],"n":2)"));
  for (size_t i = 0; i < 4; ++i) {
    fed.push_text(i, std::string(i + 1, static_cast<char>('w' + i)));
    fed.push(i, end_event(FinishReason::kMaxNewTokens));
  }
  const Json answer = Json::parse(fed.answer.body());
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(to_text(answer["choices"][3]),
            R"({"index":3,"text":"zzzz","logprobs":null,"finish_reason":"length"})");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3) << "each prompt once";
  EXPECT_EQ(answer["usage"]["completion_tokens"], 10);
}

TEST(CompletionAnswer, WhatWasCachedIsCountedOncePerPrompt) {
  Fed fed(completion_job(R"("prompt":["abc","def"],"n":2)"));
  for (size_t i = 0; i < 4; ++i) {
    StreamEvent event = end_event(FinishReason::kMaxNewTokens);
    event.summary.n_cached = i % 2 == 0 ? 1 : 3;  // the second choice finds what the first has computed
    fed.push(i, std::move(event));
  }
  EXPECT_EQ(fed.answer.usage().prompt_tokens, 6);
  EXPECT_EQ(fed.answer.usage().cached_tokens, 2);
}

TEST(CompletionAnswer, ChunksInTheirOrder) {
  Fed fed(completion_job(R"("prompt":"a","stream":true,"echo":true)"));
  fed.push_text(0, "b");
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
  const auto chunk = [&](const std::string& text, const std::string& reason) {
    return R"({"id":"id-1","object":"text_completion","created":1234,"model":"tiny","choices":[{"index":0,"text":")" +
           text + R"(","logprobs":null,"finish_reason":)" + reason + "}]}";
  };
  EXPECT_THAT(fed.payloads, ElementsAre(chunk("a", "null"), chunk("b", "null"), chunk("", R"("length")")));
}

StreamEvent prompt_event(int32_t token, std::optional<double> logprob, std::vector<TokenLogprob> top) {
  return {.kind = StreamEvent::Kind::kPromptToken,
          .token = token,
          .logprob = logprob,
          .top_logprobs = std::move(top)};
}

TEST(CompletionAnswer, LogprobsWithEcho) {
  for (const bool stream : {false, true}) {
    Fed fed(completion_job(std::string(R"("prompt":"éa","echo":true,"logprobs":1)") +
                           (stream ? R"(,"stream":true)" : "")));
    fed.push(0, prompt_event(0xC3, {}, {}));
    fed.push(0, prompt_event(0xA9, -2, {{'x', -1}}));
    fed.push(0, prompt_event('a', -1, {{'a', -1}}));
    fed.push(0, with_logprobs('b', -0.5, {{'b', -0.5}}));
    fed.push(0, end_event(FinishReason::kMaxNewTokens));
    Json logprobs = {{"tokens", Json::array()},
                     {"token_logprobs", Json::array()},
                     {"top_logprobs", Json::array()},
                     {"text_offset", Json::array()}};
    std::string text;
    const std::vector<Json> answers = stream ? fed.chunks() : std::vector{Json::parse(fed.answer.body())};
    for (const Json& answer : answers) {
      const Json& choice = answer["choices"][0];
      text += choice["text"].get<std::string>();
      if (choice["logprobs"].is_null()) continue;
      for (const auto& [name, list] : choice["logprobs"].items()) {
        for (const Json& element : list) logprobs[name].push_back(element);
      }
    }
    EXPECT_EQ(text, "éab");
    EXPECT_EQ(to_text(logprobs),
              R"({"tokens":["bytes:\\xc3","bytes:\\xa9","a","b"],"token_logprobs":[null,-2.0,-1.0,-0.5],)"
              R"("top_logprobs":[null,{"x":-1.0,"bytes:\\xa9":-2.0},{"a":-1.0},{"b":-0.5}],)"
              R"("text_offset":[0,0,1,2]})");
  }
}

TEST(CompletionAnswer, TheChosenOfTwoTokensWithOneTextIsShown) {
  Fed fed(completion_job(R"("prompt":"a","logprobs":2)"));
  // Outside the vocabulary all texts are empty, and so alike.
  fed.push(0, with_logprobs(901, -3, {{900, -1}, {'x', -2}}));
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
  const Json logprobs = Json::parse(fed.answer.body())["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["top_logprobs"][0], Json({{"x", -2}, {"", -3}}));
  EXPECT_EQ(logprobs["token_logprobs"][0], -3);
}

StreamEvent with_routing(StreamEvent event, int64_t position, std::vector<uint16_t> ids) {
  event.position = position;
  event.routing = TokenRouting{position, {0, 2, 4}, std::move(ids), {0.75F, 0.25F, 0.5F, 0.1F}};
  return event;
}

void feed_routed(Fed& fed) {
  fed.push(0, with_routing(prompt_event('a', {}, {}), 0, {1, 2, 3, 4}));
  fed.push(0, with_routing(prompt_event('b', {}, {}), 1, {1, 2, 3, 4}));
  fed.push(0, with_routing(token_event('x'), 1, {1, 2, 3, 4}));
  fed.push(0, with_routing(token_event('y'), 2, {7, 0, 3, 5}));
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
}

constexpr const char* kRoutedTokens =
    R"([{"position":0,"token":97,"experts":[[1,2],[3,4]],"weights":[[0.75,0.25],[0.5,0.1]]},)"
    R"({"position":1,"token":98,"experts":[[1,2],[3,4]],"weights":[[0.75,0.25],[0.5,0.1]]},)"
    R"({"position":2,"token":120,"experts":[[7,0],[3,5]],"weights":[[0.75,0.25],[0.5,0.1]]}])";

TEST(CompletionAnswer, TheSummaryIsThatOfAllTokens) {
  Fed fed(completion_job(R"("prompt":"ab","routing":true)"));
  feed_routed(fed);
  const Json answer = Json::parse(fed.answer.body());
  EXPECT_EQ(answer["experts_per_token"], 2);
  const Json& routing = answer["choices"][0]["routing"];
  EXPECT_FALSE(routing.contains("tokens"));
  const Json& summary = routing["summary"];
  EXPECT_EQ(summary["experts_per_token"], 2);
  EXPECT_EQ(summary["all"]["n_tokens"], 3);
  EXPECT_EQ(summary["prompt"]["n_tokens"], 2);
  EXPECT_EQ(summary["all"]["active_parameters"]["mean"], 140.0) << "100 and four experts of 10";
  EXPECT_EQ(summary["all"]["touched_bytes"]["mean"], 280.0);
  EXPECT_EQ(summary["distinct_pairs"], 7);
  EXPECT_EQ(summary["layers"].size(), 2U);
  EXPECT_EQ(summary["n_dropped_tokens"], 0);
  EXPECT_FALSE(summary["all"].contains("gate_entropy_bits")) << "nobody recorded it";
}

TEST(CompletionAnswer, RoutingOfEveryTokenOnce) {
  Fed fed(completion_job(R"("prompt":"ab","routing":"tokens")"));
  feed_routed(fed);
  const Json routing = Json::parse(fed.answer.body())["choices"][0]["routing"];
  EXPECT_EQ(routing["tokens"], Json::parse(kRoutedTokens));
  EXPECT_EQ(routing["summary"]["all"]["n_tokens"], 3);
}

TEST(CompletionAnswer, RoutingIsStreamedWithTheText) {
  Fed fed(completion_job(R"("prompt":"ab","routing":"tokens","stream":true)"));
  feed_routed(fed);
  Json tokens = Json::array();
  const std::vector<Json> chunks = fed.chunks();
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Json& choice = chunks[i]["choices"][0];
    EXPECT_EQ(chunks[i]["experts_per_token"], 2);
    EXPECT_EQ(choice.contains("routing") && choice["routing"].contains("summary"), i + 1 == chunks.size());
    if (!choice.contains("routing") || !choice["routing"].contains("tokens")) continue;
    for (const Json& token : choice["routing"]["tokens"]) tokens.push_back(token);
  }
  EXPECT_EQ(tokens, Json::parse(kRoutedTokens));
  EXPECT_EQ(chunks.size(), 3U) << "x, y and the end: the prompt's routing goes with the first text";
}

TEST(CompletionAnswer, RoutingOfALongPromptIsSentWithoutText) {
  Fed fed(completion_job(R"("prompt":"ab","routing":"tokens","stream":true)"));
  fed.job.requests[0].prompt.assign(3000, 'a');
  for (int64_t i = 0; i < 3000; ++i) {
    fed.push(0, with_routing(prompt_event('a', {}, {}), i, {1, 2, 3, 4}));
  }
  EXPECT_GE(fed.payloads.size(), 3U);
  size_t n_tokens = 0;
  for (const Json& chunk : fed.chunks()) {
    EXPECT_EQ(chunk["choices"][0]["text"], "");
    n_tokens += chunk["choices"][0]["routing"]["tokens"].size();
  }
  EXPECT_LE(n_tokens, 3000U);
  fed.push(0, end_event(FinishReason::kMaxNewTokens));
  EXPECT_EQ(Json::parse(fed.payloads.back())["choices"][0]["routing"]["tokens"].size(), 3000U - n_tokens);
}

/// Feeds one job in both modes with the same events.
TEST(ChatAnswer, TheJoinedStreamIsTheWholeAnswer) {
  Rng rng(5);
  const int32_t alphabet[] = {'a', 'b', 0xC3, 0xA9, 0xE2, 0x82, 0xAC, kEuroBegin, kHello, kTurn, 0xFF, '\n'};
  for (int round = 0; round < 100; ++round) {
    const std::string members = R"(,"stop":["ab","é\n","ohe"],"logprobs":true,"top_logprobs":1)";
    Fed whole(chat_job(members));
    Fed stream(chat_job(members + R"(,"stream":true)"));
    bool more = true;
    for (int i = 0; i < 20 && more; ++i) {
      const int32_t token = alphabet[rng.next_below(std::size(alphabet))];
      more = whole.push(0, with_logprobs(token, -1, {{token, -1}}));
      EXPECT_EQ(stream.push(0, with_logprobs(token, -1, {{token, -1}})), more);
    }
    whole.push(0, end_event(more ? FinishReason::kMaxNewTokens : FinishReason::kCancelled));
    stream.push(0, end_event(more ? FinishReason::kMaxNewTokens : FinishReason::kCancelled));
    std::string text;
    Json content = Json::array();
    Json reason;
    const std::vector<Json> chunks = stream.chunks();
    for (size_t i = 0; i < chunks.size(); ++i) {
      EXPECT_TRUE(is_valid_utf8(stream.payloads[i]));
      const Json& choice = chunks[i]["choices"][0];
      EXPECT_EQ(choice["delta"].contains("role"), i == 0);
      EXPECT_EQ(choice["finish_reason"].is_null(), i + 1 < chunks.size());
      reason = choice["finish_reason"];
      if (choice["delta"].contains("content")) text += choice["delta"]["content"].get<std::string>();
      if (choice["logprobs"].is_null()) continue;
      for (const Json& entry : choice["logprobs"]["content"]) content.push_back(entry);
    }
    const Json answer = Json::parse(whole.answer.body())["choices"][0];
    EXPECT_EQ(answer["message"]["content"], text);
    EXPECT_EQ(answer["logprobs"]["content"], content);
    EXPECT_EQ(answer["finish_reason"], reason);
  }
}

}  // namespace
}  // namespace soli::openai
