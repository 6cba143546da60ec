#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace soli {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Everything off: plain draws from the softmax.
SamplingParams plain() {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  params.seed = 7;
  return params;
}

std::vector<float> logits_of(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

/// Shares of `n` draws, [vocab].
std::vector<double> shares(const SamplingParams& params, const std::vector<float>& logits,
                           const std::vector<int32_t>& recent = {}, int n = 20000) {
  Sampler sampler(params);
  std::vector<double> result(logits.size());
  for (int i = 0; i < n; ++i) result[static_cast<size_t>(sampler.sample(logits, recent))] += 1.0 / n;
  return result;
}

void expect_shares(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    // Five standard errors of 20,000 draws; what is cut off is never drawn.
    const double tolerance = 5 * std::sqrt(expected[i] * (1 - expected[i]) / 20000);
    EXPECT_NEAR(found[i], expected[i], tolerance + 1e-9) << "token " << i;
  }
}

TEST(Sampler, DrawsFromTheSoftmax) {
  expect_shares(shares(plain(), logits_of({0.5, 0.3, 0.15, 0.05})), {0.5, 0.3, 0.15, 0.05});
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplingParams params = plain();
  params.temperature = 0.5;  // squares the probabilities
  expect_shares(shares(params, logits_of({0.6, 0.3, 0.1})), {0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46});
  params.temperature = 1e9;
  expect_shares(shares(params, logits_of({0.6, 0.3, 0.1})), {1 / 3.0, 1 / 3.0, 1 / 3.0});
  params.temperature = 1e-300;
  expect_shares(shares(params, logits_of({0.3, 0.6, 0.1})), {0, 1, 0});
}

TEST(Sampler, TemperatureZeroTakesTheLowestIdOfTheBest) {
  SamplingParams params = plain();
  params.temperature = 0;
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{1, 3, 2, 3}, {}), 1);
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{-4}, {}), 0);
}

TEST(Sampler, TopKKeepsTheKMostLikely) {
  SamplingParams params = plain();
  params.top_k = 2;
  expect_shares(shares(params, logits_of({0.15, 0.5, 0.05, 0.3})), {0, 0.5 / 0.8, 0, 0.3 / 0.8});
  params.top_k = 1;
  expect_shares(shares(params, logits_of({0.15, 0.5, 0.05, 0.3})), {0, 1, 0, 0});
  params.top_k = 100;  // more than there are
  expect_shares(shares(params, logits_of({0.2, 0.8})), {0.2, 0.8});
}

TEST(Sampler, TopKGivesTiesToLowerIds) {
  SamplingParams params = plain();
  params.top_k = 2;
  expect_shares(shares(params, std::vector<float>(9, 1.5F)), {0.5, 0.5, 0, 0, 0, 0, 0, 0, 0});
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  SamplingParams params = plain();
  params.top_p = 0.7;
  expect_shares(shares(params, logits_of({0.15, 0.5, 0.05, 0.3})), {0, 0.5 / 0.8, 0, 0.3 / 0.8});
  params.top_p = 0.49;
  expect_shares(shares(params, logits_of({0.15, 0.5, 0.05, 0.3})), {0, 1, 0, 0});
  params.top_p = 0;
  expect_shares(shares(params, logits_of({0.15, 0.5, 0.05, 0.3})), {0, 1, 0, 0});
}

TEST(Sampler, TopPCountsAmongWhatTopKKept) {
  SamplingParams params = plain();
  params.top_k = 2;    // leaves 5/8 and 3/8
  params.top_p = 0.6;  // of 0.8 and not of 1: the first is enough
  expect_shares(shares(params, logits_of({0.15, 0.5, 0.05, 0.3})), {0, 1, 0, 0});
}

TEST(Sampler, MinPComparesWithTheBest) {
  SamplingParams params = plain();
  params.min_p = 0.25;
  expect_shares(shares(params, logits_of({0.1, 0.5, 0.1, 0.3})), {0, 0.5 / 0.8, 0, 0.3 / 0.8});
  params.min_p = 1;  // the best, and what ties with it
  expect_shares(shares(params, logits_of({0.1, 0.4, 0.1, 0.4})), {0, 0.5, 0, 0.5});
}

TEST(Sampler, TemperatureComesAfterTheCuts) {
  SamplingParams params = plain();
  params.min_p = 0.25;
  params.temperature = 1e9;  // were it first, nothing would be cut
  expect_shares(shares(params, logits_of({0.1, 0.5, 0.1, 0.3})), {0, 0.5, 0, 0.5});
}

TEST(Sampler, PenaltyLowersPositiveAndNegativeLogits) {
  SamplingParams params = plain();
  params.temperature = 0;
  params.repeat_penalty = 2;
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{4, 3}, std::vector<int32_t>{0}), 1);    // 4 / 2 < 3
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{-2, -3}, std::vector<int32_t>{0}), 1);  // -2 * 2 < -3
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{4, 1.5F}, std::vector<int32_t>{0, 0}), 0);  // once only
  params.repeat_penalty = 1;
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{4, 3}, std::vector<int32_t>{0}), 0);
  params.repeat_penalty = 0.5;  // rewards
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{2, 3}, std::vector<int32_t>{0}), 0);
}

TEST(Sampler, PenaltyLooksAtTheLastTokensOnly) {
  SamplingParams params = plain();
  params.temperature = 0;
  params.repeat_penalty = 2;
  const std::vector<float> logits = {4, 3, 1};
  const std::vector<int32_t> recent = {0, 2, 2};
  EXPECT_EQ(Sampler(params).sample(logits, recent), 1);
  params.repeat_last_n = 2;
  EXPECT_EQ(Sampler(params).sample(logits, recent), 0);
  params.repeat_last_n = 0;
  EXPECT_EQ(Sampler(params).sample(logits, std::vector<int32_t>{0}), 0);
}

TEST(Sampler, BiasIsAddedToALogit) {
  SamplingParams params = plain();
  params.logit_bias = {{.token = 1, .bias = std::log(3)}, {.token = 7, .bias = 5}, {.token = -1, .bias = 5}};
  expect_shares(shares(params, logits_of({0.5, 0.25, 0.25})), {0.5 / 1.5, 0.75 / 1.5, 0.25 / 1.5});
  params.temperature = 0;
  params.logit_bias = {{.token = 2, .bias = 100}};
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{4, 3, -50}, {}), 2);
  params.logit_bias = {{.token = 0, .bias = -100}};
  EXPECT_EQ(Sampler(params).sample(std::vector<float>{4, 3, -50}, {}), 1);
}

/// Draws at temperature 0 with these logits, each draw knowing those before it.
std::vector<int32_t> greedy_draws(const SamplingParams& params, const std::vector<float>& logits, int n) {
  Sampler sampler(params);
  std::vector<int32_t> tokens = {0, 0, 0};  // a prompt, which these penalties do not look at
  for (int i = 0; i < n; ++i) tokens.push_back(sampler.sample(logits, tokens));
  return {tokens.begin() + 3, tokens.end()};
}

TEST(Sampler, FrequencyPenaltyCountsEveryDraw) {
  SamplingParams params = plain();
  params.temperature = 0;
  params.frequency_penalty = 1;
  // 4 3 2.5 -> 3 3 2.5 -> 2 3 2.5 -> 2 2 2.5 -> 2 2 1.5 -> 1 2 1.5
  EXPECT_THAT(greedy_draws(params, {4, 3, 2.5F}, 6), testing::ElementsAre(0, 0, 1, 2, 0, 1));
  params.frequency_penalty = -1;
  EXPECT_THAT(greedy_draws(params, {4, 3, 2.5F}, 3), testing::ElementsAre(0, 0, 0));
}

TEST(Sampler, PresencePenaltyCountsOnce) {
  SamplingParams params = plain();
  params.temperature = 0;
  params.presence_penalty = 1.25;  // 4 3 2.5 -> 2.75 3 2.5 -> 2.75 1.75 2.5 -> the same from here on
  EXPECT_THAT(greedy_draws(params, {4, 3, 2.5F}, 4), testing::ElementsAre(0, 1, 0, 0));
}

TEST(Sampler, IgnoresRecentTokensOutsideTheVocabulary) {
  SamplingParams params = plain();
  params.repeat_penalty = 2;
  expect_shares(shares(params, logits_of({0.5, 0.5}), {-1, 2, 1 << 30}), {0.5, 0.5});
}

TEST(Sampler, SameSeedSameTokensAndOtherSeedOthers) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(std::sin(static_cast<double>(i * i)));
  const auto draw = [&](const SamplingParams& params) {
    Sampler sampler(params);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sampler.sample(logits, tokens));
    return tokens;
  };
  SamplingParams params;
  params.seed = 1;
  const std::vector<int32_t> tokens = draw(params);
  EXPECT_EQ(draw(params), tokens);
  params.seed = 2;
  EXPECT_NE(draw(params), tokens);
}

/// Recounted by a short script from SplitMix64 and the definitions; equal on every machine, compiler and
/// library.
TEST(Sampler, DrawsTheseTokens) {
  std::vector<float> logits(64);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 37) % 64) * 0.125F;
  SamplingParams params = plain();
  params.seed = 42;
  const auto draw = [&] {
    Sampler sampler(params);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 8; ++i) tokens.push_back(sampler.sample(logits, {}));
    return tokens;
  };
  EXPECT_THAT(draw(), testing::ElementsAre(48, 12, 19, 19, 5, 57, 17, 50));
  params.top_p = 0.95;  // draws from the best down, no longer by id
  EXPECT_THAT(draw(), testing::ElementsAre(62, 38, 57, 12, 19, 10, 38, 36));
  params.top_k = 40;
  EXPECT_THAT(draw(), testing::ElementsAre(62, 38, 57, 12, 19, 10, 38, 36));
}

TEST(Sampler, LogitsThatAreNotFiniteDoNoHarm) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const auto nan = static_cast<float>(kNan);
  const auto infinity = static_cast<float>(kInfinity);
  SamplingParams params = plain();
  expect_shares(shares(params, {nan, 1, nan, -infinity}), {0, 1, 0, 0});
  expect_shares(shares(params, {0, infinity, kMax, 3}), {0, 0.5, 0.5, 0});
  params.top_k = 2;
  params.top_p = 0.9;
  expect_shares(shares(params, std::vector<float>(3, nan)), {0.5, 0.5, 0});
  params.repeat_penalty = 1e300;
  expect_shares(shares(params, {-kMax, -1, -2}, {1}), {0, 0, 1});
}

TEST(Sampler, RefusesParametersThatMakeNoSense) {
  EXPECT_TRUE(SamplingParams().validate().has_value());
  EXPECT_TRUE(plain().validate().has_value());
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    const Status status = params.validate();
    return status ? std::string("accepted") : status.error().message;
  };
  for (const double bad : {kNan, kInfinity, -1e7}) {
    EXPECT_THAT(message([&](auto& p) { p.frequency_penalty = bad; }), HasSubstr("frequency_penalty is "));
    EXPECT_THAT(message([&](auto& p) { p.presence_penalty = bad; }), HasSubstr("presence_penalty is "));
    EXPECT_THAT(message([&](auto& p) { p.logit_bias = {{3, bad}}; }), HasSubstr("logit_bias is "));
  }
  for (const double bad : {kNan, kInfinity, -0.5}) {
    EXPECT_THAT(message([&](auto& p) { p.temperature = bad; }), HasSubstr("temperature is "));
    EXPECT_THAT(message([&](auto& p) { p.top_p = bad; }), HasSubstr("top_p is "));
    EXPECT_THAT(message([&](auto& p) { p.min_p = bad; }), HasSubstr("min_p is "));
    EXPECT_THAT(message([&](auto& p) { p.repeat_penalty = bad; }), HasSubstr("repeat_penalty is "));
  }
  EXPECT_EQ(message([](auto& p) { p.top_p = 1.5; }), "top_p is 1.5; allowed is 0 to 1");
  EXPECT_EQ(message([](auto& p) { p.repeat_penalty = 0; }),
            "repeat_penalty is 0; allowed is above 0, and finite");
  EXPECT_EQ(message([](auto& p) { p.top_k = -1; }), "top_k is -1; allowed is 0 or more");
  EXPECT_EQ(message([](auto& p) { p.repeat_last_n = -1; }), "repeat_last_n is -1; allowed is 0 or more");
}

TEST(Sampler, GreedyCountsWhatIsNotFiniteAsTheNearestFinite) {
  const auto greedy = [](const std::vector<float>& logits) {
    return Sampler({.temperature = 0}).sample(logits, {});
  };
  constexpr float kMost = std::numeric_limits<float>::max();
  const auto infinity = static_cast<float>(kInfinity);
  const auto nan = static_cast<float>(kNan);
  EXPECT_EQ(greedy({kMost, infinity}), 0);
  EXPECT_EQ(greedy({nan, -infinity}), 0);
  EXPECT_EQ(greedy({-infinity, -kMost}), 0);
  EXPECT_EQ(greedy({nan, -3, nan, -2}), 3);
}

TEST(Argmax, TakesTheLowestIdOfTheLargest) {
  std::vector<float> many(100, -5.0F);
  for (const size_t place : {99, 98, 50, 37, 16, 15, 0}) {
    many[place] = 2;
    EXPECT_EQ(argmax(many), static_cast<int32_t>(place));
  }
  EXPECT_EQ(argmax(std::vector<float>{-3, -1, -1, -2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{5}), 0);
}

TEST(LogProbability, IsTheLogOfTheSoftmax) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.25});
  EXPECT_NEAR(log_probability(logits, 1), std::log(0.25), 1e-7);
  EXPECT_EQ(log_probability(std::vector<float>{123}, 0), 0);
  EXPECT_NEAR(log_probability(std::vector<float>{3e38F, 3e38F}, 1), -std::log(2), 1e-12);
  EXPECT_NEAR(log_probability(std::vector<float>{0, 1000}, 0), -1000, 1e-9);
}

TEST(KlDivergence, IsTheExpectedDifferenceOfLogProbabilities) {
  // p = (1/2, 1/4, 1/4), q = (1/4, 1/4, 1/2): KL = 1/2 ln 2 - 1/4 ln 2.
  const std::vector<float> p = {std::log(2.0F), 0, 0};
  const std::vector<float> q = {0, 0, std::log(2.0F)};
  EXPECT_NEAR(kl_divergence(p, q), std::log(2) / 4, 1e-7);
  EXPECT_EQ(kl_divergence(p, p), 0);
  // The same distribution at another height; and one that is sure of the wrong token.
  EXPECT_NEAR(kl_divergence(p, std::vector<float>{std::log(2.0F) + 50, 50, 50}), 0, 1e-6);
  EXPECT_NEAR(kl_divergence(std::vector<float>{0, 1000}, std::vector<float>{1000, 0}), 1000, 1e-9);
}

TEST(TopLogProbabilities, AreTheBestInOrderWithTheSameNumbers) {
  const std::vector<float> logits = {1, 3, -2, 3, 0.5F};
  const std::vector<TokenLogprob> top = top_log_probabilities(logits, 3);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].token, 1) << "the lower id on a tie";
  EXPECT_EQ(top[1].token, 3);
  EXPECT_EQ(top[2].token, 0);
  for (const TokenLogprob& entry : top) EXPECT_EQ(entry.logprob, log_probability(logits, entry.token));
  EXPECT_EQ(top_log_probabilities(logits, 100).size(), logits.size());
  EXPECT_TRUE(top_log_probabilities(logits, 0).empty());
}

}  // namespace
}  // namespace soli
