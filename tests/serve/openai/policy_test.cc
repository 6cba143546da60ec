// Routing policies in requests: what server and key allow, what is refused, and what goes before what.

#include <gmock/gmock.h>

#include "model/policy_text.h"
#include "serve/openai/endpoints.h"
#include "support/served.h"

namespace soli::openai {
namespace {

using serve::PolicyAllowance;
using testing::ElementsAre;
using testing::HasSubstr;

PolicyAllowance allow(const char* text) { return PolicyAllowance::parse(text).value(); }

class PolicyOfRequest : public testing::Test {
 protected:
  ApiResult<TextJob> chat(const std::string& members, const Caller& caller = {}) const {
    return read_chat(R"({"messages":[{"role":"user","content":"hi"}],)" + members + "}", served_.model,
                     caller);
  }
  RoutingPolicy policy_of(const std::string& members, const Caller& caller = {}) const {
    const auto job = chat(members, caller);
    EXPECT_TRUE(job) << job.error().message;
    return job ? job->requests.front().policy : RoutingPolicy();
  }
  void expect_no(const std::string& members, const char* part, const Caller& caller = {}) const {
    const auto job = chat(members, caller);
    ASSERT_FALSE(job) << members;
    EXPECT_EQ(job.error().status, 400);
    EXPECT_EQ(job.error().param, "policy") << members;
    EXPECT_THAT(job.error().message, HasSubstr(part)) << members;
  }

  Served served_;
};

TEST_F(PolicyOfRequest, ControlsMustBeAllowed) {
  expect_no(R"("policy":{"temperature":2})", "'policy' sets 'temperature'; allowed here: experts_per_token");
  served_.model.allow_policy = allow("temperature,mask");
  EXPECT_EQ(policy_of(R"("policy":{"temperature":2,"mask":[1]})"),
            (RoutingPolicy{.temperature = 2, .mask = {1}}));
  expect_no(R"("policy":{"noise":1})", "allowed here: experts_per_token, mask, temperature");
  expect_no(R"("policy":{"layers":[{"layers":1,"temperature":2}]})", "sets 'layers'");
  served_.model.allow_policy = allow("temperature,layers");
  EXPECT_EQ(policy_of(R"("policy":{"layers":[{"layers":1,"temperature":2}]})").layers.size(), 1U);
  expect_no(R"("policy":{"layers":[{"layers":1,"mask":[1]}]})", "sets 'mask'");
}

TEST_F(PolicyOfRequest, AKeyMayDoLessThanTheServerAllows) {
  served_.model.allow_policy = allow("all");
  EXPECT_TRUE(chat(R"("policy":{"temperature":2})"));
  const Caller narrow = {.allow_policy = allow("mask")};
  expect_no(R"("policy":{"temperature":2})", "allowed here: experts_per_token, mask", narrow);
  EXPECT_TRUE(chat(R"("policy":{"mask":[1]})", narrow));
  const Caller none = {.allow_policy = PolicyAllowance()};
  expect_no(R"("policy":{"mask":[1]})", "sets 'mask'", none);
  served_.model.allow_policy = allow("noise");
  expect_no(R"("policy":{"mask":[1]})", "sets 'mask'", narrow);
}

TEST_F(PolicyOfRequest, ExpertsStayWithinTheirLimits) {
  EXPECT_EQ(policy_of(R"("policy":{"experts_per_token":4})").experts_per_token, 4);
  expect_no(R"("policy":{"experts_per_token":5})", "5 experts per token; allowed are 1 to 4");
  expect_no(R"("policy":{"experts_per_token":4})", "1 to 3", {.experts_per_token = 3});
  served_.model.allow_policy = allow("all");
  expect_no(R"("policy":{"layers":[{"layers":"0-1","experts_per_token":4}]})", "1 to 3",
            {.experts_per_token = 3});
  EXPECT_TRUE(policy_of(R"("policy":{"experts_per_token":2})").is_exact()) << "the model's own number";
  EXPECT_TRUE(policy_of(R"("policy":{"layers":[{"layers":"0-1"}]})").is_exact()) << "it sets nothing";
  EXPECT_EQ(policy_of(R"("policy":{"experts_per_token":3},"experts_per_token":1)").experts_per_token, 1);
}

TEST_F(PolicyOfRequest, WhatCannotBeIsRefused) {
  served_.model.allow_policy = allow("all");
  expect_no(R"("policy":[])", "an object");
  expect_no(R"("policy":true)", "an object");
  expect_no(R"("policy":{"heat":1})", "sets 'heat'");
  expect_no(R"("policy":{"temperature":0})", "temperature: 0 is not allowed");
  expect_no(R"("policy":{"temperature":1e-38})", "a number from 0.000001 to 1000");
  expect_no(R"("policy":{"temperature":"\u0000x"})", "temperature");
  expect_no(R"("policy":{"mask":[8]})", "mask: there is no expert 8; 0 to 7");
  expect_no(R"("policy":{"mask":["0-7"]})", "all 8 experts are masked");
  expect_no(R"("policy":{"mask":[1],"force":[1]})", "expert 1 is masked");
  expect_no(R"("policy":{"layers":[{"layers":9,"mask":[1]}]})", "layers 9-9");
  expect_no(R"("policy":{"layers":[3]})", "layers[0]");
  EXPECT_TRUE(policy_of(R"("policy":null)").is_exact());
  EXPECT_TRUE(policy_of(R"("policy":{})").is_exact());
  served_.spec().router = {};
  const auto dense = chat(R"("policy":{})");
  ASSERT_FALSE(dense);
  EXPECT_EQ(dense.error().code, "unsupported_parameter");
}

TEST_F(PolicyOfRequest, TheServersOwnHoldsWhereTheRequestSaysNothing) {
  served_.model.policy = {.experts_per_token = 4, .temperature = 2, .mask = {1}};
  served_.model.allow_policy = allow("temperature");
  EXPECT_EQ(policy_of(R"("n":1)"), served_.model.policy);
  EXPECT_EQ(policy_of(R"("policy":{"temperature":3})"),
            (RoutingPolicy{.experts_per_token = 4, .temperature = 3, .mask = {1}}));
  EXPECT_TRUE(chat(R"("policy":{"temperature":3})", {.experts_per_token = 1})) << "4 is the server's wish";
  EXPECT_EQ(chat(R"("n":1)")->experts_per_token, 4);
  const auto embedding = read_embedding(R"({"input":"hi"})", served_.model);
  ASSERT_TRUE(embedding);
  EXPECT_EQ(embedding->requests.front().policy, served_.model.policy);
}

TEST_F(PolicyOfRequest, PropsTellWhatHolds) {
  served_.model.policy = {.temperature = 2};
  served_.model.allow_policy = allow("noise,mask");
  const Json props = Json::parse(props_body(served_.model));
  EXPECT_EQ(props["policy"], (Json{{"temperature", 2.0}}));
  EXPECT_EQ(props["allow_policy"], (Json{"mask", "noise"}));
}

TEST(PolicyAllowanceTest, NamesWhatIsNoControl) {
  EXPECT_THAT(allow("none").keys(), ElementsAre());
  EXPECT_THAT(allow("mask,noise").keys(), ElementsAre("mask", "noise"));
  EXPECT_EQ(allow("all").keys().size(), policy_keys().size());
  EXPECT_TRUE(allow("none").allows("experts_per_token"));
  EXPECT_FALSE(allow("mask").has_state());
  EXPECT_TRUE(allow("smoothing").has_state() && allow("context_gate").has_state() &&
              allow("capacity_factor").has_state());
  for (const char* text : {"", "mask,", "heat", "mask noise", "all,mask"}) {
    const auto allowance = PolicyAllowance::parse(text);
    ASSERT_FALSE(allowance) << text;
    EXPECT_THAT(allowance.error().message, HasSubstr("is no control"));
  }
}

}  // namespace
}  // namespace soli::openai
