// Bodies that become requests, and those that are refused: the status, code and parameter of each.

#include <gmock/gmock.h>

#include "serve/openai/endpoints.h"
#include "serve/openai/generation_fields.h"
#include "support/served.h"

namespace soli::openai {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kMessages = R"("messages":[{"role":"user","content":"hi"}])";

ApiResult<TextJob> chat(const std::string& members, const Caller& caller = {}) {
  static const Served served;
  return read_chat("{" + std::string(kMessages) + (members.empty() ? "" : "," + members) + "}", served.model,
                   caller);
}

ApiResult<TextJob> completion(const std::string& members, const Caller& caller = {}) {
  static const Served served;
  return read_completion("{" + members + "}", served.model, caller);
}

struct Refusal {
  const char* members;
  const char* code;
  const char* param;
  const char* part_of_message;
};

template <typename T>
void expect_refusal(const ApiResult<T>& result, const Refusal& refusal) {
  ASSERT_FALSE(result) << refusal.members;
  EXPECT_EQ(result.error().status, std::string(refusal.code) == "model_not_found" ? 404 : 400)
      << refusal.members;
  EXPECT_EQ(result.error().type, kInvalidRequest);
  EXPECT_EQ(result.error().code, refusal.code) << refusal.members;
  EXPECT_EQ(result.error().param, refusal.param) << refusal.members;
  EXPECT_THAT(result.error().message, HasSubstr(refusal.part_of_message)) << refusal.members;
}

// What both endpoints refuse. 20 digits are beyond 64 bits.
const Refusal kCommon[] = {
    {R"("model":"other")", "model_not_found", "model", "'tiny' is"},
    {R"("model":7)", "invalid_value", "model", "a string"},
    {R"("foo":1)", "unknown_parameter", "foo", "'foo' is no parameter"},
    {R"("foo":null)", "unknown_parameter", "foo", "no parameter"},
    {R"("n":0)", "invalid_value", "n", "1 to 16"},
    {R"("n":1000000)", "invalid_value", "n", "is 1000000"},
    {R"("n":1.5)", "invalid_value", "n", "whole number"},
    {R"("n":"2")", "invalid_value", "n", "whole number"},
    {R"("n":18446744073709551617)", "invalid_value", "n", "whole number"},
    {R"("max_tokens":-1)", "invalid_value", "max_tokens", "is -1"},
    {R"("max_tokens":-2)", "invalid_value", "max_tokens", "is -2"},
    {R"("max_tokens":18446744073709551615)", "invalid_value", "max_tokens", "is 18446744073709551615"},
    {R"("max_tokens":true)", "invalid_value", "max_tokens", "is true"},
    {R"("max_tokens":3,"max_completion_tokens":4)", "invalid_value", "max_completion_tokens", "one of them"},
    {R"("temperature":-0.1)", "invalid_value", "temperature", "from 0 to 2"},
    {R"("temperature":2.1)", "invalid_value", "temperature", "is 2.1"},
    {R"("temperature":"hot")", "invalid_value", "temperature", "'hot'"},
    {R"("top_p":1.01)", "invalid_value", "top_p", "0 to 1"},
    {R"("min_p":-1)", "invalid_value", "min_p", "0 to 1"},
    {R"("top_k":-1)", "invalid_value", "top_k", "from 0"},
    {R"("frequency_penalty":2.5)", "invalid_value", "frequency_penalty", "-2 to 2"},
    {R"("presence_penalty":-3)", "invalid_value", "presence_penalty", "-2 to 2"},
    {R"("repeat_penalty":0)", "invalid_value", "repeat_penalty", "above 0"},
    {R"("repeat_last_n":-1)", "invalid_value", "repeat_last_n", "from 0"},
    {R"("seed":1.5)", "invalid_value", "seed", "whole number"},
    {R"("seed":9223372036854775808)", "invalid_value", "seed", "whole number"},
    {R"("stop":"")", "invalid_value", "stop", "1 to 1024 bytes"},
    {R"("stop":["a",""])", "invalid_value", "stop[1]", "1 to 1024 bytes"},
    {R"("stop":["a",7])", "invalid_value", "stop[1]", "is 7"},
    {R"("stop":{})", "invalid_value", "stop", "an object"},
    {R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])", "invalid_value",
     "stop", "a list of 17"},
    {R"("logit_bias":[1])", "invalid_value", "logit_bias", "a list of 1"},
    {R"("logit_bias":{"-1":1})", "invalid_value", "logit_bias", "'-1'"},
    {R"("logit_bias":{"260":1})", "invalid_value", "logit_bias", "0 to 259"},
    {R"("logit_bias":{"99999999999999999999":1})", "invalid_value", "logit_bias", "'99999999999999999999'"},
    {R"("logit_bias":{"01":1})", "invalid_value", "logit_bias", "'01'"},
    {R"("logit_bias":{"1 ":1})", "invalid_value", "logit_bias", "'1 '"},
    {R"("logit_bias":{"":1})", "invalid_value", "logit_bias", "''"},
    {R"("logit_bias":{"1":101})", "invalid_value", "logit_bias", "of token 1 is 101"},
    {R"("logit_bias":{"1":"x"})", "invalid_value", "logit_bias", "'x'"},
    {R"("stream":"yes")", "invalid_value", "stream", "true or false"},
    {R"("stream_options":{"include_usage":true})", "invalid_value", "stream_options", "for streams"},
    {R"("stream":true,"stream_options":{"x":1})", "unknown_parameter", "stream_options.x", "no parameter"},
    {R"("stream":true,"stream_options":7)", "invalid_value", "stream_options", "an object"},
    {R"("stream":true,"stream_options":{"include_usage":1})", "invalid_value", "stream_options.include_usage",
     "true or false"},
    {R"("routing":"all")", "invalid_value", "routing", "'tokens'"},
    {R"("experts_per_token":0)", "invalid_value", "experts_per_token", "1 to 4"},
    {R"("experts_per_token":5)", "invalid_value", "experts_per_token", "1 to 4"},
    {R"("priority":1001)", "invalid_value", "priority", "-1000 to 1000"},
    {R"("user":7)", "invalid_value", "user", "string"},
    {R"("ignore_eos":1)", "invalid_value", "ignore_eos", "true or false"},
};

TEST(ReadRequests, BothRefuseWhatTheyDoNotKnow) {
  for (const Refusal& refusal : kCommon) {
    expect_refusal(chat(refusal.members), refusal);
    expect_refusal(completion(std::string(R"("prompt":"x",)") + refusal.members), refusal);
  }
}

TEST(ReadChat, RefusesWhatItDoesNotDo) {
  const Refusal refusals[] = {
      {R"("tools":[{"type":"function"}])", "unsupported_parameter", "tools", "leave it out, or send []"},
      {R"("tool_choice":"required")", "unsupported_parameter", "tool_choice", "'required'"},
      {R"("functions":[{}])", "unsupported_parameter", "functions", "a list of 1"},
      {R"("response_format":{"type":"json_object"})", "unsupported_parameter", "response_format", "text"},
      {R"("modalities":["text","audio"])", "unsupported_parameter", "modalities", "a list of 2"},
      {R"("audio":{})", "unsupported_parameter", "audio", "leave it out"},
      {R"("prediction":{})", "unsupported_parameter", "prediction", "leave it out"},
      {R"("verbosity":"low")", "unsupported_parameter", "verbosity", "'low'"},
      {R"("service_tier":"flex")", "unsupported_parameter", "service_tier", "'flex'"},
      {R"("store":true)", "unsupported_parameter", "store", "true"},
      {R"("web_search_options":{})", "unsupported_parameter", "web_search_options", "leave it out"},
      {R"("logprobs":1)", "invalid_value", "logprobs", "true or false"},
      {R"("top_logprobs":2)", "invalid_value", "top_logprobs", "with \"logprobs\": true"},
      {R"("logprobs":true,"top_logprobs":21)", "invalid_value", "top_logprobs", "0 to 20"},
      {R"("reasoning_effort":7)", "invalid_value", "reasoning_effort", "a string"},
      {R"("chat_template_kwargs":7)", "invalid_value", "chat_template_kwargs", "an object"},
      {R"("chat_template_kwargs":{"thinking":1})", "unsupported_parameter", "chat_template_kwargs.thinking",
       "no such variable"},
      {R"("chat_template_kwargs":{"messages":[]})", "invalid_value", "chat_template_kwargs.messages",
       "by the request itself"},
      {R"("echo":true)", "unknown_parameter", "echo", "no parameter"},
      {R"("prompt":"x")", "unknown_parameter", "prompt", "no parameter"},
  };
  for (const Refusal& refusal : refusals) expect_refusal(chat(refusal.members), refusal);
}

TEST(ReadChat, RefusesMessagesThatAreNone) {
  const Refusal refusals[] = {
      {R"({})", "missing_required_parameter", "messages", "'messages' is missing"},
      {R"({"messages":null})", "missing_required_parameter", "messages", "missing"},
      {R"({"messages":"hi"})", "invalid_value", "messages", "at least one message"},
      {R"({"messages":[]})", "invalid_value", "messages", "at least one message"},
      {R"({"messages":["hi"]})", "invalid_value", "messages[0]", "an object"},
      {R"({"messages":[{"content":"hi"}]})", "missing_required_parameter", "messages[0].role", "missing"},
      {R"({"messages":[{"role":7,"content":"hi"}]})", "invalid_value", "messages[0].role", "a string"},
      {R"({"messages":[{"role":"user"}]})", "missing_required_parameter", "messages[0].content", "missing"},
      {R"({"messages":[{"role":"user","content":7}]})", "invalid_value", "messages[0].content", "is 7"},
      {R"({"messages":[{"role":"user","content":["x"]}]})", "invalid_value", "messages[0].content[0]", "'x'"},
      {R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})", "unsupported_parameter",
       "messages[0].content[0].type", "missing"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "unsupported_parameter",
       "messages[0].content[0].type", "'image_url'"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "missing_required_parameter",
       "messages[0].content[0].text", "missing"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","x":1}]}]})", "unknown_parameter",
       "messages[0].content[0].x", "no parameter"},
      {R"({"messages":[{"role":"user","content":"a","x":1}]})", "unknown_parameter", "messages[0].x",
       "no parameter"},
      {R"({"messages":[{"role":"user","content":"a","refusal":"no"}]})", "unsupported_parameter",
       "messages[0].refusal", "'no'"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"a","tool_calls":1}]})",
       "invalid_value", "messages[1].tool_calls", "a list"},
      {R"({"messages":[{"role":"bad","content":"a"}]})", "chat_template_error", "messages", "no such role"},
  };
  const Served served;
  for (const Refusal& refusal : refusals) {
    expect_refusal(read_chat(refusal.members, served.model, {}), refusal);
  }
}

TEST(ReadChat, AModelWithoutATemplateTakesNone) {
  Served served;
  served.model.chat_template = nullptr;
  expect_refusal(read_chat("{" + std::string(kMessages) + "}", served.model, {}),
                 {"", "unsupported_parameter", "messages", "has no chat template"});
}

TEST(ReadChat, ATemplateThatRunsAwayIsStopped) {
  Served served;
  const ChatTemplate endless =
      ChatTemplate::parse("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
          .value();
  served.model.chat_template = &endless;
  expect_refusal(read_chat("{" + std::string(kMessages) + "}", served.model, {}),
                 {"", "chat_template_error", "messages", "steps"});
}

TEST(ReadChat, TheConversationGoesThroughTheTemplate) {
  const auto job = chat("");
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->requests.size(), 1U);
  std::vector<int32_t> expected = {kTurn};
  const auto add = [&](std::string_view text) {
    for (const int32_t id : bytes_of(text)) expected.push_back(id);
  };
  add("user:hi");
  expected.push_back(kEnd);
  expected.push_back(kTurn);
  add("assistant:");
  EXPECT_EQ(job->requests[0].prompt, expected);
  EXPECT_EQ(job->requests[0].max_new_tokens, -1) << "up to the end of the context";
  EXPECT_THAT(job->requests[0].end_tokens, ElementsAre(kEnd));
  const SamplingParams& sampling = job->requests[0].sampling;
  EXPECT_EQ(sampling.temperature, 1);
  EXPECT_EQ(sampling.top_p, 1);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0);
  EXPECT_TRUE(job->requests[0].policy.is_exact());
  EXPECT_EQ(job->experts_per_token, 2);
}

std::string rendered(const std::string& body) {
  static const Served served;
  const auto text = apply_template(body, served.model);
  return text ? Json::parse(*text)["prompt"].get<std::string>() : text.error().message;
}

TEST(ApplyTemplate, ShowsThePrompt) {
  EXPECT_EQ(rendered(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},
                         {"type":"text","text":"b"}],"name":"Ann"}]})"),
            "<|turn|>user:a\nb(Ann)<|end|><|turn|>assistant:");
  EXPECT_EQ(rendered(R"({"messages":[{"role":"assistant","content":"é","refusal":null,"annotations":[],
                         "audio":null,"function_call":null,"reasoning_content":"r"}],
                         "add_generation_prompt":false,"tools":[]})"),
            "<|turn|>assistant:é<|end|>");
  EXPECT_EQ(rendered(R"({"messages":[{"role":"tool","content":"4","tool_call_id":"x"},
                         {"role":"assistant","content":null,"tool_calls":[{"id":"x"}]}],
                         "chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"low"})"),
            "<|turn|>tool:4<|end|><|turn|>assistant:None<|end|>think low<|turn|>assistant:");
  EXPECT_THAT(rendered(R"({"messages":[]})"), HasSubstr("'messages' is a list of 0"));
  EXPECT_THAT(rendered(R"({"messages":[{"role":"u","content":"a"}],"n":1})"),
              HasSubstr("'n' is no parameter"));
}

TEST(ReadChat, TakesWhatClientsSendAndNeutralValues) {
  for (const char* const members : {
           R"("model":"tiny","user":"x","n":1,"parallel_tool_calls":true,"tools":[],"tool_choice":"auto")",
           R"("store":false,"metadata":{"a":"b"},"service_tier":"auto","modalities":["text"])",
           R"("response_format":{"type":"text"},"stream_options":null,"logit_bias":null,"stop":null)",
           R"("logit_bias":{},"stop":[],"seed":-5,"verbosity":"medium","prompt_cache_key":"k")",
           R"("safety_identifier":"s","functions":[],"function_call":"none","audio":null,"prediction":null)",
           R"("stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false})",
           R"("top_logprobs":0,"logprobs":false,"reasoning_effort":"low","routing":false)",
           R"("temperature":0,"top_p":1.0,"max_tokens":8,"max_completion_tokens":8,"experts_per_token":null)",
       }) {
    const auto job = chat(members);
    EXPECT_TRUE(job) << members << ": " << job.error().message;
  }
}

TEST(ReadRequests, EveryParameterArrives) {
  const auto job = chat(R"("temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"frequency_penalty":1,
      "presence_penalty":-1,"repeat_penalty":1.5,"repeat_last_n":9,"seed":42,"max_completion_tokens":5,
      "logit_bias":{"0":-100,"259":2.5},"stop":["a","b"],"stream":true,"n":2,
      "stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":3,"ignore_eos":true,
      "experts_per_token":4,"priority":-3,"routing":"tokens")");
  ASSERT_TRUE(job) << job.error().message;
  const Request& request = job->requests[0];
  const SamplingParams& sampling = request.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.25);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.125);
  EXPECT_EQ(sampling.frequency_penalty, 1);
  EXPECT_EQ(sampling.presence_penalty, -1);
  EXPECT_EQ(sampling.repeat_penalty, 1.5);
  EXPECT_EQ(sampling.repeat_last_n, 9);
  EXPECT_EQ(sampling.seed, 42U);
  EXPECT_THAT(sampling.logit_bias, ElementsAre(LogitBias{0, -100}, LogitBias{259, 2.5}));
  EXPECT_EQ(request.max_new_tokens, 5);
  EXPECT_TRUE(request.end_tokens.empty());
  EXPECT_EQ(request.generated_detail, Detail::kTopLogprobs);
  EXPECT_EQ(request.n_top_logprobs, 3);
  EXPECT_EQ(request.prompt_detail, Detail::kNone);
  EXPECT_EQ(request.policy.experts_per_token, 4);
  EXPECT_THAT(job->stops, ElementsAre("a", "b"));
  EXPECT_TRUE(job->stream && job->include_usage && job->logprobs);
  EXPECT_EQ(job->n, 2);
  EXPECT_EQ(job->experts_per_token, 4);
  EXPECT_EQ(request.priority, -3);
  EXPECT_TRUE(request.want_routing);
  EXPECT_EQ(job->routing, RoutingDetail::kTokens);
  EXPECT_TRUE(request.sampling.validate());
}

TEST(ReadRequests, EachChoiceHasItsOwnSeed) {
  const auto job = completion(R"("prompt":["x","y"],"n":3,"seed":7)");
  ASSERT_TRUE(job);
  ASSERT_EQ(job->requests.size(), 6U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(job->requests[i].sampling.seed, seed_of_choice(7, static_cast<int64_t>(i)));
    EXPECT_EQ(job->requests[i].sampling.seed, job->requests[i + 3].sampling.seed) << "alike for each prompt";
    EXPECT_EQ(job->requests[i].prompt, bytes_of("x"));
    EXPECT_EQ(job->requests[i + 3].prompt, bytes_of("y"));
  }
  EXPECT_EQ(job->requests[0].sampling.seed, 7U);
  EXPECT_NE(job->requests[1].sampling.seed, job->requests[2].sampling.seed);
  EXPECT_EQ(completion(R"("prompt":"x")", {.seed = 99})->requests[0].sampling.seed, 99U);
  EXPECT_EQ(completion(R"("prompt":"x","seed":-1)")->requests[0].sampling.seed, ~uint64_t{0});
}

TEST(ReadRequests, ExpertsStayWithinTheLimitOfTheCaller) {
  expect_refusal(chat(R"("experts_per_token":4)", {.experts_per_token = 3}),
                 {"", "invalid_value", "experts_per_token", "1 to 3"});
  EXPECT_TRUE(chat(R"("experts_per_token":3)", {.experts_per_token = 3}));
  expect_refusal(chat(R"("experts_per_token":5)", {.experts_per_token = 9}),
                 {"", "invalid_value", "experts_per_token", "1 to 4"});
  EXPECT_TRUE(chat(R"("experts_per_token":2)")->requests[0].policy.is_exact()) << "the model's own number";
  Served dense;
  dense.spec().router = {};
  const std::string messages = std::string("{") + kMessages;
  for (const char* const members : {R"("experts_per_token":1)", R"("routing":true)"}) {
    const auto job = read_chat(messages + "," + members + "}", dense.model, {});
    ASSERT_FALSE(job);
    EXPECT_EQ(job.error().code, "unsupported_parameter");
    EXPECT_THAT(job.error().message, HasSubstr("dense"));
  }
  EXPECT_EQ(read_chat(messages + "}", dense.model, {})->experts_per_token, 0);
}

TEST(ReadCompletion, TakesPromptsInFourForms) {
  const auto prompts = [](const std::string& prompt) {
    Prompts result;
    const auto job = completion("\"prompt\":" + prompt);
    if (!job) ADD_FAILURE() << prompt << ": " << job.error().message;
    if (job) {
      for (const Request& request : job->requests) result.push_back(request.prompt);
    }
    return result;
  };
  EXPECT_EQ(prompts(R"("ab")"), Prompts({bytes_of("ab")}));
  EXPECT_EQ(prompts(R"(["ab","c"])"), Prompts({bytes_of("ab"), bytes_of("c")}));
  EXPECT_EQ(prompts("[1,259]"), Prompts({{1, 259}}));
  EXPECT_EQ(prompts("[[1,2],[3]]"), Prompts({{1, 2}, {3}}));
  EXPECT_EQ(prompts(R"("<|end|>")"), Prompts({bytes_of("<|end|>")})) << "text of a user, no control token";
  EXPECT_EQ(prompts(R"("<|end|>","parse_special":true)"), Prompts({{kEnd}}));
  EXPECT_EQ(completion(R"("prompt":"x")")->requests[0].max_new_tokens, 16) << "as OpenAI has it";
}

TEST(ReadCompletion, RefusesPromptsThatAreNone) {
  const std::string long_prompt = R"("prompt":")" + std::string(64, 'x') + "\"";
  const std::string longer_prompt = R"("prompt":["a",")" + std::string(65, 'x') + "\"],\"max_tokens\":0";
  std::string many = R"("prompt":["a")";
  for (int i = 0; i < 64; ++i) many += ",\"a\"";
  many += "]";
  const Refusal refusals[] = {
      {R"("n":1)", "missing_required_parameter", "prompt", "a list of token ids"},
      {R"("prompt":null)", "missing_required_parameter", "prompt", "missing"},
      {R"("prompt":7)", "invalid_value", "prompt", "is 7"},
      {R"("prompt":[])", "invalid_value", "prompt", "a list of 0"},
      {R"("prompt":{})", "invalid_value", "prompt", "an object"},
      {R"("prompt":"")", "invalid_value", "prompt", "is empty"},
      {R"("prompt":[[]])", "invalid_value", "prompt", "is empty"},
      {R"("prompt":["a",""])", "invalid_value", "prompt[1]", "is empty"},
      {R"("prompt":[true])", "invalid_value", "prompt[0]", "is true"},
      {R"("prompt":["a",1])", "invalid_value", "prompt[1]", "as the others"},
      {R"("prompt":[1,"a"])", "invalid_value", "prompt[1]", "'a'"},
      {R"("prompt":[-1])", "invalid_value", "prompt[0]", "is -1; allowed is a token id from 0 to 259"},
      {R"("prompt":[0,260])", "invalid_value", "prompt[1]", "is 260"},
      {R"("prompt":[1.0])", "invalid_value", "prompt[0]", "is 1.0"},
      {R"("prompt":[4294967296])", "invalid_value", "prompt[0]", "is 4294967296"},
      {R"("prompt":[18446744073709551615])", "invalid_value", "prompt[0]", "is 18446744073709551615"},
      {R"("prompt":[[1],[2,-7]])", "invalid_value", "prompt[1][1]", "is -7"},
      {R"("prompt":[[1],2])", "invalid_value", "prompt[1]", "is 2"},
      {long_prompt.c_str(), "context_length_exceeded", "prompt", "has 64 tokens, and the context holds 64"},
      {longer_prompt.c_str(), "context_length_exceeded", "prompt[1]",
       "has 65 tokens, and the context holds 64"},
      {many.c_str(), "invalid_value", "prompt", "up to 64"},
      {R"("prompt":["a","a","a","a","a","a","a","a","a"],"n":16)", "invalid_value", "n", "128 choices"},
      {R"("prompt":"a","suffix":"b")", "unsupported_parameter", "suffix", "'b'"},
      {R"("prompt":"a","best_of":2)", "unsupported_parameter", "best_of", "or send 1"},
      {R"("prompt":"a","logprobs":21)", "invalid_value", "logprobs", "0 to 20"},
      {R"("prompt":"a","logprobs":true)", "invalid_value", "logprobs", "is true"},
      {R"("prompt":"a","echo":1)", "invalid_value", "echo", "true or false"},
      {R"("prompt":"a","messages":[])", "unknown_parameter", "messages", "no parameter"},
      {R"("prompt":"a","tools":[])", "unknown_parameter", "tools", "no parameter"},
  };
  for (const Refusal& refusal : refusals) expect_refusal(completion(refusal.members), refusal);
  EXPECT_TRUE(completion(long_prompt + ",\"max_tokens\":0")) << "a full context has room for no answer";
  EXPECT_TRUE(completion(R"("prompt":"a","best_of":2,"n":2,"suffix":null,"user":"x")"));
}

TEST(ReadCompletion, LogprobsOfThePromptAreAskedForWithEcho) {
  auto job = completion(R"("prompt":"ab","logprobs":2)");
  EXPECT_EQ(job->requests[0].prompt_detail, Detail::kNone);
  EXPECT_EQ(job->requests[0].generated_detail, Detail::kTopLogprobs);
  job = completion(R"("prompt":"ab","logprobs":0,"echo":true,"max_tokens":0)");
  EXPECT_EQ(job->requests[0].prompt_detail, Detail::kLogprob);
  EXPECT_EQ(job->requests[0].max_new_tokens, 0);
  job = completion(R"("prompt":"ab","echo":true)");
  EXPECT_EQ(job->requests[0].prompt_detail, Detail::kNone) << "its tokens are known";
}

TEST(ReadRequests, BodiesThatAreNoObjectAreRefused) {
  const Served served;
  const std::string deep = R"({"messages":)" + std::string(10000, '[');
  for (const std::string& body : {std::string(), std::string("[]"), std::string("\"x\""), deep,
                                  std::string(R"({"n":1,"n":2})"), std::string(R"({"temperature":1e309})")}) {
    for (const auto& error :
         {read_chat(body, served.model, {}).error(), read_completion(body, served.model, {}).error(),
          read_embedding(body, served.model).error(), tokenize(body, served.model).error(),
          detokenize(body, served.model).error(), apply_template(body, served.model).error()}) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.code, "invalid_json") << error.message;
    }
  }
}

}  // namespace
}  // namespace soli::openai
