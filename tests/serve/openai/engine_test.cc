// Bodies to answers over a real engine and a tiny model.

#include <gmock/gmock.h>

#include "base/utf8.h"
#include "serve/openai/answer.h"
#include "serve/openai/endpoints.h"
#include "support/loaded_engine.h"

namespace soli::openai {
namespace {

using testing::HasSubstr;

class OverAnEngine : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = GoldenCase("olmoe").model_path();
    auto created = LoadedEngine::create(path, {.n_threads = 2},
                                        {.context_length = 128, .prefix_cache = true, .keep_routing = true});
    ASSERT_TRUE(created) << created.error().message;
    loaded_ = std::move(*created);
    tokenizer_ = Tokenizer::from_gguf(loaded_.model->file().gguf()).value();
    parameters_ = count_parameters(loaded_.model->file());
    model_.id = "olmoe";
    model_.tokenizer = tokenizer_.get();
    model_.context_length = loaded_.engine->context_length();
    model_.spec = &loaded_.model->spec();
    model_.parameters = &parameters_;
  }

  struct Reply {
    std::vector<Json> chunks;
    Json body;
  };

  /// The reply to a completion, or what it failed with as {"error"}.
  Reply complete(const std::string& body) {
    const auto job = read_completion(body, model_, {.seed = 1});
    if (!job) return {{}, Json::parse(error_body(job.error()))};
    std::vector<std::shared_ptr<Stream>> streams;
    for (const Request& request : job->requests) {
      auto stream = loaded_.engine->submit(request);
      if (!stream) return {{}, Json::parse(error_body(submit_error(stream.error())))};
      streams.push_back(*std::move(stream));
    }
    soli::openai::Answer answer(model_, *job, "cmpl-1", 7);
    std::vector<std::string> payloads;
    while (!answer.done()) {
      loaded_.engine->step();
      for (size_t i = 0; i < streams.size(); ++i) {
        while (auto event = streams[i]->try_pop()) {
          if (!answer.push(i, *std::move(event), payloads)) streams[i]->close();
        }
      }
    }
    answer.end(payloads);
    Reply reply;
    for (const std::string& payload : payloads) {
      EXPECT_TRUE(is_valid_utf8(payload));
      reply.chunks.push_back(Json::parse(payload));
    }
    if (!job->stream) reply.body = Json::parse(answer.body());
    return reply;
  }

  static std::string joined(const std::vector<Json>& chunks, size_t index) {
    std::string text;
    for (const Json& chunk : chunks) {
      for (const Json& choice : chunk["choices"]) {
        if (choice["index"] == index) text += choice["text"].get<std::string>();
      }
    }
    return text;
  }

  LoadedEngine loaded_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ParameterCounts parameters_;
  ServedModel model_;
};

TEST_F(OverAnEngine, TheStreamIsTheWholeAnswer) {
  for (const std::string& more :
       {std::string(R"("temperature":0)"), std::string(R"("n":3,"seed":5,"echo":true)"),
        std::string(R"("n":2,"temperature":2,"presence_penalty":1,"logit_bias":{"7":5})")}) {
    const std::string members = R"({"prompt":["Hello there","a b"],"max_tokens":24,)" + more;
    const Json whole = complete(members + "}").body;
    const std::vector<Json> chunks =
        complete(members + R"(,"stream":true,"stream_options":{"include_usage":true}})").chunks;
    ASSERT_TRUE(whole.contains("choices")) << to_text(whole);
    for (size_t i = 0; i < whole["choices"].size(); ++i) {
      EXPECT_EQ(whole["choices"][i]["index"], i);
      EXPECT_EQ(joined(chunks, i), whole["choices"][i]["text"].get<std::string>()) << more;
    }
    EXPECT_EQ(chunks.back()["usage"], whole["usage"]);
    EXPECT_EQ(complete(members + "}").body["choices"], whole["choices"]) << "the seed decides";
  }
}

TEST_F(OverAnEngine, MaxTokensAreExact) {
  for (const int n : {0, 1, 5}) {
    const Json reply =
        complete(fmt::format(R"({{"prompt":"a b","max_tokens":{},"ignore_eos":true}})", n)).body;
    EXPECT_EQ(reply["usage"]["completion_tokens"], n);
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
    if (n == 0) {
      EXPECT_EQ(reply["choices"][0]["text"], "");
    }
  }
  const Json full = complete(R"({"prompt":"a b","max_tokens":100000,"ignore_eos":true})").body;
  EXPECT_EQ(full["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(full["usage"]["total_tokens"], 128) << "up to the end of the context";
}

TEST_F(OverAnEngine, AStopStringCutsTheTextThere) {
  const std::string members = R"({"prompt":"Hello","max_tokens":40,"temperature":0,"ignore_eos":true)";
  const std::string text = complete(members + "}").body["choices"][0]["text"];
  // From the middle of a character on nothing would be UTF-8.
  size_t begin = text.size() / 2;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  size_t end = std::min(text.size(), begin + 4);
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(begin, end - begin);
  const Json reply = complete(members + ",\"stop\":" + to_text(stop) + "}").body;
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(reply["choices"][0]["text"].get<std::string>(), text.substr(0, text.find(stop)));
  EXPECT_LE(reply["usage"]["completion_tokens"], 40);
}

TEST_F(OverAnEngine, LogprobsAreFiniteAndHoldTheChosenToken) {
  for (const char* const temperature : {"0", "2"}) {
    const Json reply = complete(std::string(R"({"prompt":"Hello there","max_tokens":12,"logprobs":3,)") +
                                R"("echo":true,"ignore_eos":true,"temperature":)" + temperature + "}")
                           .body;
    const Json& logprobs = reply["choices"][0]["logprobs"];
    const size_t n = reply["usage"]["total_tokens"];
    for (const char* const name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
      EXPECT_EQ(logprobs[name].size(), n) << name;
    }
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null() && logprobs["top_logprobs"][0].is_null());
    for (size_t i = 1; i < n; ++i) {
      const Json& top = logprobs["top_logprobs"][i];
      const std::string token = logprobs["tokens"][i];
      ASSERT_TRUE(top.contains(token)) << token;
      EXPECT_EQ(to_text(top[token]), to_text(logprobs["token_logprobs"][i]));
      EXPECT_LE(logprobs["token_logprobs"][i], 0);
      EXPECT_GT(logprobs["token_logprobs"][i], -9999);
      EXPECT_TRUE(top.size() >= 1 && top.size() <= 4);
    }
  }
}

TEST_F(OverAnEngine, ABiasDecides) {
  const Json reply = complete(R"({"prompt":"Hello","max_tokens":4,"logit_bias":{"40":100},"temperature":1,
                                  "ignore_eos":true,"logprobs":0})")
                         .body;
  for (const Json& token : reply["choices"][0]["logprobs"]["tokens"]) {
    EXPECT_EQ(token, tokenizer_->piece(40, true));
  }
  for (const Json& logprob : reply["choices"][0]["logprobs"]["token_logprobs"]) {
    EXPECT_LT(logprob, -0.5) << "of the distribution before the bias";
  }
}

TEST_F(OverAnEngine, WhatTheEngineWouldRefuseIsRefusedBefore) {
  EXPECT_THAT(to_text(complete(R"({"prompt":[-1]})").body), HasSubstr("prompt[0]"));
  EXPECT_THAT(to_text(complete(R"({"prompt":[286]})").body), HasSubstr("0 to 285"));
  std::string ids = "[1";
  for (int i = 0; i < 200; ++i) ids += ",1";
  for (const char* const stream : {"true", "false"}) {
    const Json error = complete("{\"prompt\":" + ids + R"(],"stream":)" + stream + "}").body["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_THAT(error["message"].get<std::string>(), AllOf(HasSubstr("201"), HasSubstr("128")));
  }
}

TEST_F(OverAnEngine, OtherNumbersOfExpertsAreSaid) {
  model_.limits.experts_per_token = 3;
  const std::string members = R"({"prompt":"Hello there","max_tokens":8,"temperature":0,"logprobs":0)";
  const Json own = complete(members + "}").body;
  EXPECT_FALSE(own.contains("experts_per_token"));
  const Json one = complete(members + R"(,"experts_per_token":1})").body;
  EXPECT_EQ(one["experts_per_token"], 1);
  EXPECT_NE(one["choices"][0]["logprobs"], own["choices"][0]["logprobs"]);
  EXPECT_EQ(complete(members + R"(,"experts_per_token":4})").body["error"]["param"], "experts_per_token");
}

TEST_F(OverAnEngine, AnAnswerTellsItsPolicy) {
  model_.allow_policy = serve::PolicyAllowance::parse("all").value();
  const std::string members = R"({"prompt":"Hello there","max_tokens":8,"temperature":0,"logprobs":0)";
  const Json own = complete(members + "}").body;
  EXPECT_FALSE(own.contains("policy"));
  const Json nothing = complete(members + R"(,"policy":{}})").body;
  EXPECT_EQ(nothing["policy"], Json::object());
  EXPECT_EQ(nothing["choices"], own["choices"]);
  const Json masked = complete(members + R"(,"policy":{"mask":[0],"noise":2}})").body;
  EXPECT_EQ(masked["policy"], Json::parse(R"({"noise":2.0,"mask":[0]})"));
  EXPECT_NE(masked["choices"][0]["logprobs"], own["choices"][0]["logprobs"]);
  EXPECT_EQ(complete(members + R"(,"policy":{"mask":[0],"noise":2}})").body["choices"], masked["choices"]);
}

std::string long_prompt() {
  std::string ids = "[[1";
  for (int i = 0; i < 89; ++i) ids += fmt::format(",{}", 3 + i % 50);
  return ids + "]]";
}

TEST_F(OverAnEngine, RoutingIsThatOfEveryTokenAlsoFromTheCache) {
  const std::string members = "{\"prompt\":" + long_prompt() +
                              R"(,"max_tokens":4,"temperature":0,"ignore_eos":true,"routing":"tokens")";
  const Json cold = complete(members + "}").body;
  const Json warm = complete(members + "}").body;
  EXPECT_EQ(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_GE(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 64);
  EXPECT_EQ(warm["choices"], cold["choices"]);
  const Json& routing = cold["choices"][0]["routing"];
  ASSERT_EQ(routing["tokens"].size(), 93U) << "the last token is not computed";
  for (size_t i = 0; i < 93; ++i) {
    const Json& token = routing["tokens"][i];
    EXPECT_EQ(token["position"], i);
    if (i > 0 && i < 90) {
      EXPECT_EQ(token["token"], 3 + (i - 1) % 50);
    }
    ASSERT_EQ(token["experts"].size(), 2U);
    for (size_t layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(token["experts"][layer].size(), 3U);
      EXPECT_EQ(token["weights"][layer].size(), 3U);
    }
  }
  const Json& summary = routing["summary"];
  EXPECT_EQ(summary["prompt"]["n_tokens"], 90);
  EXPECT_EQ(summary["generated"]["n_tokens"], 3);
  EXPECT_EQ(summary["n_incomplete_tokens"], 0);
  EXPECT_EQ(summary["all"]["active_parameters"]["mean"],
            static_cast<double>(parameters_.active_with_k(*model_.spec).parameters));
  Json streamed = Json::array();
  for (const Json& chunk : complete(members + R"(,"stream":true})").chunks) {
    for (const Json& choice : chunk["choices"]) {
      if (!choice.contains("routing") || !choice["routing"].contains("tokens")) continue;
      for (const Json& token : choice["routing"]["tokens"]) streamed.push_back(token);
    }
  }
  EXPECT_EQ(streamed, routing["tokens"]);
}

TEST_F(OverAnEngine, RoutingFollowsTheNumberOfExperts) {
  const Json reply =
      complete(R"({"prompt":"Hello there","max_tokens":3,"experts_per_token":1,"routing":"tokens",
                                  "n":2,"echo":true,"logprobs":1,"ignore_eos":true})")
          .body;
  EXPECT_EQ(reply["experts_per_token"], 1);
  for (const Json& choice : reply["choices"]) {
    for (const Json& token : choice["routing"]["tokens"]) EXPECT_EQ(token["experts"][0].size(), 1U);
    EXPECT_EQ(choice["routing"]["summary"]["experts_per_token"], 1);
    EXPECT_EQ(choice["logprobs"]["tokens"].size(), choice["routing"]["tokens"].size() + 1);
  }
}

TEST_F(OverAnEngine, EmbeddingsAreTheEnginesNormalised) {
  for (const char* const pooling : {"mean", "last"}) {
    const auto job = read_embedding(
        fmt::format(R"({{"input":["Hello there","a","Hello there"],"pooling":"{}"}})", pooling), model_);
    ASSERT_TRUE(job);
    std::vector<std::vector<float>> vectors;
    for (const Request& request : job->requests) {
      const auto stream = loaded_.engine->submit(request).value();
      while (loaded_.engine->step()) {
      }
      while (const auto event = stream->try_pop()) {
        if (event->kind == StreamEvent::Kind::kEmbedding) vectors.push_back(event->embedding);
      }
    }
    const Json data = Json::parse(embedding_body(model_, *job, vectors))["data"];
    ASSERT_EQ(data.size(), 3U);
    EXPECT_EQ(data[0]["embedding"], data[2]["embedding"]);
    EXPECT_NE(data[0]["embedding"], data[1]["embedding"]);
    double squares = 0;
    for (const double x : data[0]["embedding"].get<std::vector<double>>()) squares += x * x;
    EXPECT_NEAR(squares, 1, 1e-5);
    EXPECT_EQ(data[0]["embedding"].size(), static_cast<size_t>(model_.spec->hidden_size));
  }
}

}  // namespace
}  // namespace soli::openai
