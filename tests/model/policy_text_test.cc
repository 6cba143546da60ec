// Policies as people write them: what is read, what is refused and how the error names it, and that what is
// printed is read back to the same.

#include "model/policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

RoutingPolicy read(std::string_view text) {
  RoutingPolicy policy;
  const Status status = read_policy_toml(text, "p.toml", policy);
  EXPECT_TRUE(status) << status.error().message;
  return policy;
}

constexpr const char* kEverything = R"(
experts_per_token = 2
k_min = 1
relative_threshold = 0.25
cumulative_probability = 0.9
temperature = 0.5
mask = [7, "2-3", 3]
force = [1]
bias = { 5 = 0.5, 0 = -1 }
noise = 0.1
noise_seed = 9
smoothing = 0.3
context_gate = 2
context_gate_tokens = 8
input_clamp = 10.0
capacity_factor = 1.25
capacity_window = 32
overflow = "drop"

[[layers]]
layers = "1-2"
experts_per_token = 1
mask = []

[[layers]]
layers = 3
temperature = 1
bias = { 2 = 1.5 }
)";

RoutingPolicy everything() {
  return {.experts_per_token = 2,
          .relative_threshold = 0.25,
          .cumulative_probability = 0.9,
          .temperature = 0.5,
          .mask = {2, 3, 7},
          .force = {1},
          .bias = {{0, -1}, {5, 0.5}},
          .noise = 0.1,
          .noise_seed = 9,
          .smoothing = 0.3,
          .context_gate = 2,
          .context_gate_tokens = 8,
          .input_clamp = 10,
          .capacity_factor = 1.25,
          .capacity_window = 32,
          .overflow = Overflow::kDrop,
          .layers = {{.first_layer = 1, .last_layer = 2, .experts_per_token = 1, .mask = {{}}},
                     {.first_layer = 3, .last_layer = 3, .temperature = 1, .bias = {{{2, 1.5}}}}}};
}

TEST(PolicyText, EveryControlIsRead) {
  EXPECT_EQ(read(kEverything), everything());
  EXPECT_EQ(read(""), RoutingPolicy{});
  EXPECT_EQ(read("temperature = 1\nmask = []\n"), RoutingPolicy{}) << "what is off is off";
  EXPECT_EQ(read("k_min = 1"), RoutingPolicy{});
  EXPECT_EQ(read("temperature = 1e-6").temperature, 1e-6);
}

TEST(PolicyText, WhatIsPrintedIsReadBack) {
  for (const RoutingPolicy& policy :
       {RoutingPolicy{}, everything(), RoutingPolicy{.temperature = 1.0 / 3, .noise = 1e-7},
        RoutingPolicy{.mask = {1, 2}, .layers = {{.first_layer = 0, .last_layer = 4, .force = {{3}}}}}}) {
    EXPECT_EQ(read(policy_toml(policy)), policy) << policy_toml(policy);
    RoutingPolicy again;
    EXPECT_TRUE(read_policy_json(policy_json(policy), again));
    EXPECT_EQ(again, policy);
    EXPECT_TRUE(read_policy_json(Json::parse(policy_json(policy).dump()), again));
    EXPECT_EQ(again, policy);
  }
  EXPECT_EQ(policy_json({}).dump(), "{}");
  EXPECT_EQ(policy_toml({}), "");
}

TEST(PolicyText, PeopleReadOneLine) {
  EXPECT_EQ(describe({}), "the model's own routing");
  EXPECT_EQ(describe({.experts_per_token = 2, .temperature = 0.5, .mask = {1, 2}}),
            "experts_per_token = 2, temperature = 0.5, mask = [1,2]");
  EXPECT_EQ(describe({.layers = {{.first_layer = 1, .last_layer = 2, .bias = {{{3, 0.5}}}}}}),
            "in layers 1-2: bias = { 3 = 0.5 }");
}

TEST(PolicyText, LaterKeysGoBeforeEarlierOnes) {
  RoutingPolicy policy = {.experts_per_token = 3, .mask = {1}, .layers = {{}}};
  ASSERT_TRUE(read_policy_json(Json::parse(R"({"mask":[4],"temperature":2,"layers":[]})"), policy));
  EXPECT_EQ(policy, (RoutingPolicy{.experts_per_token = 3, .temperature = 2, .mask = {4}}));
}

TEST(PolicyText, ErrorsNameFileLineAndKey) {
  struct Case {
    const char* text;
    const char* start;
    const char* part;
  };
  const std::vector<Case> cases = {
      {"noise = 1\ntemperature = 0",
       "p.toml:2: temperature: ", "0 is not allowed; a number from 0.000001 to 1000"},
      {"temperature = 9e-7", "p.toml:1: temperature: ", "a number from 0.000001 to 1000"},
      {"temperature = nan", "p.toml:1: temperature: ", "nan is not allowed"},
      {"temperature = inf", "p.toml:1: temperature: ", "inf is not allowed"},
      {"temperature = \"hot\"", "p.toml:1: temperature: ", "\"hot\""},
      {"temperature = true", "p.toml:1: temperature: ", "true"},
      {"cumulative_probability = 0", "p.toml:1: cumulative_probability: ", "at most 1"},
      {"cumulative_probability = 1.5", "p.toml:1: cumulative_probability: ", "1.5"},
      {"smoothing = 1", "p.toml:1: smoothing: ", "below 1"},
      {"experts_per_token = 2.0", "p.toml:1: experts_per_token: ", "whole number"},
      {"experts_per_token = -1", "p.toml:1: experts_per_token: ", "-1"},
      {"experts_per_token = 9223372036854775807", "p.toml:1: experts_per_token: ", "9223372036854775807"},
      {"experts_per_token = 1979-05-27", "p.toml:1: experts_per_token: ", "whole number"},
      {"mask = 3", "p.toml:1: mask: ", "list of expert ids"},
      {"mask = [-1]", "p.toml:1: mask: ", "-1"},
      {"mask = [65536]", "p.toml:1: mask: ", "65536"},
      {"mask = [\"5-3\"]", "p.toml:1: mask: ", "5-3"},
      {"mask = [\"3-\"]", "p.toml:1: mask: ", "3-"},
      {"mask = [\"+3\"]", "p.toml:1: mask: ", "+3"},
      {"mask = [[1]]", "p.toml:1: mask: ", "[1]"},
      {"bias = [1]", "p.toml:1: bias: ", "object"},
      {"bias = { x = 1 }", "p.toml:1: bias: ", "'x' is no expert id"},
      {"bias = { 1 = inf }", "p.toml:1: bias: ", "10000"},
      {"bias = { 1 = 1, 01 = 2 }", "p.toml:1: bias: ", "expert 1 is named twice"},
      {"overflow = \"away\"", "p.toml:1: overflow: ", "\"next\" or \"drop\""},
      {"\n\nheat = 1", "p.toml:3: heat: ", "no control"},
      {"\"a b\" = 1", "p.toml:1: a b: ", "no control"},
      {"layers = 3", "p.toml:1: layers: ", "list of tables"},
      {"layers = [3]", "p.toml:1: layers[0]: ", "table"},
      {"[[layers]]\nmask = [1]", "p.toml:1: layers[0]: ", "no 'layers'"},
      {"[[layers]]\nlayers = \"x\"", "p.toml:2: layers[0].layers: ", "4-7"},
      {"[[layers]]\nlayers = 1\n[[layers]]\nlayers = 2\ntemperature = 0",
       "p.toml:5: layers[1].temperature: ", "0.000001"},
      {"[[layers]]\nlayers = 1\nnoise_seed = 1", "p.toml:3: layers[0].noise_seed: ", "no control of a layer"},
      {"temperature = 1\ntemperature = 2", "p.toml:2: ", "temperature"},
      {"temperature", "p.toml:1: ", ""},
  };
  for (const Case& wrong : cases) {
    RoutingPolicy policy;
    const Status status = read_policy_toml(wrong.text, "p.toml", policy);
    ASSERT_FALSE(status) << wrong.text;
    EXPECT_EQ(status.error().kind, ErrorKind::kMalformed);
    EXPECT_THAT(status.error().message, StartsWith(wrong.start)) << wrong.text;
    EXPECT_THAT(status.error().message, HasSubstr(wrong.part)) << wrong.text;
  }
}

TEST(PolicyText, WhatIsTooMuchIsRefusedBeforeItIsMade) {
  const auto error_of = [](const std::string& text) {
    RoutingPolicy policy;
    const Status status = read_policy_toml(text, "p.toml", policy);
    return status ? std::string() : status.error().message;
  };
  std::string parts;
  for (int i = 0; i < 5; ++i) parts += "[[layers]]\nlayers = 1\nmask = [\"0-65535\"]\n";
  EXPECT_THAT(error_of(parts), HasSubstr("at most 262144 ids"));
  std::string many;
  for (size_t i = 0; i <= kMaxPolicyParts; ++i) many += "[[layers]]\nlayers = 1\n";
  EXPECT_THAT(error_of(many), HasSubstr("513 parts; 512 are allowed"));
  EXPECT_THAT(error_of(std::string(kMaxPolicyBytes + 1, '\n')), HasSubstr("1048577 bytes"));
  EXPECT_THAT(error_of("mask = " + std::string(100'000, '[')), StartsWith("p.toml:1: "));
  std::string key = "b";
  for (int i = 0; i < 60'000; ++i) key = "a." + key;
  EXPECT_EQ(error_of("\n" + key + " = 1"), "p.toml:2: a key or list is nested more than 32 deep");
  EXPECT_THAT(read("mask = [\"0-3\", \"2-5\", 5, \"6-6\"]").mask, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(PolicyText, OfJsonOnlyAnObjectIsAPolicy) {
  for (const char* text : {"[]", "3", "null", "\"k\""}) {
    RoutingPolicy policy;
    const Status status = read_policy_json(Json::parse(text), policy);
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr("is an object"));
  }
}

}  // namespace
}  // namespace soli
