// Every control of a routing policy: its formula on small numbers by hand, what it refuses, and that it does
// nothing where it is off.

#include "model/steering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/steered_sequence.h"

namespace soli {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pointwise;

const std::vector<float> kFalling = {2, 1, 0, -1};  // softmax .643914, .236883, .087144, .032059
const std::vector<float> kRising = {-1, 0, 1, 2};

ModelSpec spec_of(int64_t n_layers, const RouterSpec& router) {
  ModelSpec spec;
  spec.n_layers = n_layers;
  spec.router = router;
  return spec;
}

class SteeringTest : public testing::Test {
 protected:
  std::vector<SteeredChoice> route(const RoutingPolicy& policy, const std::vector<std::vector<float>>& logits,
                                   RouterSpec router = {.experts_per_token = 2}) {
    router.n_experts = static_cast<int64_t>(logits.front().size());
    SteeredSequence sequence(*runtime_, router, policy);
    EXPECT_EQ(sequence.error, "");
    std::vector<SteeredChoice> choices = sequence.route(logits);
    overflow_ = sequence.overflow;
    return choices;
  }
  std::vector<int32_t> ids(const RoutingPolicy& policy, const std::vector<float>& logits,
                           const RouterSpec& router = {.experts_per_token = 2}) {
    return route(policy, {logits}, router).front().ids;
  }
  static void expect(const SteeredChoice& choice, const std::vector<int32_t>& wanted,
                     const std::vector<float>& weights) {
    EXPECT_EQ(choice.ids, wanted);
    EXPECT_THAT(choice.weights, Pointwise(FloatNear(3e-6F), weights));
  }

  std::unique_ptr<Runtime> runtime_ = std::move(*Runtime::create({.n_threads = 2}));
  OverflowCounts overflow_;
};

TEST_F(SteeringTest, ADefaultPolicyIsNoSteering) {
  SteeredSequence sequence(*runtime_, {.n_experts = 4, .experts_per_token = 2}, {});
  EXPECT_EQ(sequence.steering(), nullptr);
  EXPECT_FALSE(RoutingPolicy{}.has_steering());
  EXPECT_FALSE((RoutingPolicy{.experts_per_token = 1, .relative_threshold = 0.5, .k_min = 2}.has_steering()));
}

TEST_F(SteeringTest, TemperatureDividesTheLogits) {
  expect(route({.temperature = 2}, {kFalling})[0], {0, 1}, {.455054F, .276004F});
  expect(route({.temperature = 2}, {kFalling}, {.experts_per_token = 2, .gating = Gating::kSoftmaxChosen})[0],
         {0, 1}, {.622459F, .377541F});
  expect(route({.temperature = 0.5}, {{1, .5F, 0, -.5F}})[0], {0, 1}, {.643914F, .236883F});
}

TEST_F(SteeringTest, AMaskedExpertHasNoProbability) {
  expect(route({.mask = {0}}, {kFalling})[0], {1, 2}, {.665241F, .244728F});
  expect(route({.mask = {0, 1, 3}}, {kFalling})[0], {2}, {1});
  const RouterSpec sigmoid = {.experts_per_token = 2, .gating = Gating::kSigmoid};
  expect(route({.mask = {0}}, {kFalling}, sigmoid)[0], {1, 2}, {.731059F, .5F});
  EXPECT_THAT(ids({.mask = {1}}, {1, 9, 2, 3, 4, 5, 6, 7},
                  {.experts_per_token = 2, .gating = Gating::kSigmoid, .n_groups = 4, .n_groups_used = 1}),
              ElementsAre(7, 6))
      << "nor does it speak for its group";
  EXPECT_THAT(ids({.mask = {6}}, {1, 0, 0, 0, 0, 0, 9, 1},
                  {.experts_per_token = 2, .gating = Gating::kSigmoid, .n_groups = 4, .n_groups_used = 1}),
              ElementsAre(0, 1));
}

TEST_F(SteeringTest, AForcedExpertIsChosenWithItsOwnWeight) {
  expect(route({.force = {3}}, {kFalling})[0], {0, 3}, {.643914F, .032059F});
  EXPECT_THAT(ids({.force = {2, 3}}, kFalling), ElementsAre(2, 3));
  EXPECT_THAT(ids({.force = {0}}, kFalling), ElementsAre(0, 1)) << "who would be chosen anyway";
  EXPECT_THAT(ids({.force = {0}}, {1, 2, 3, 4, 5, 6, 7, 8},
                  {.experts_per_token = 2, .gating = Gating::kSigmoid, .n_groups = 4, .n_groups_used = 1}),
              ElementsAre(7, 0))
      << "whatever its group";
}

TEST_F(SteeringTest, ABiasMovesChoiceAndWeights) {
  expect(route({.bias = {{3, 4}}}, {kFalling})[0], {3, 0}, {.643914F, .236883F});
  expect(route({.bias = {{0, -5}, {3, 4}}}, {{7, 1, 0, -1}})[0], {3, 0}, {.643914F, .236883F});
}

TEST_F(SteeringTest, CumulativeProbabilityKeepsTheBestUntilItIsReached) {
  const auto n = [&](double probability, int64_t k_min = 1) {
    return route({.experts_per_token = 4, .k_min = k_min, .cumulative_probability = probability}, {kFalling})
        .front()
        .ids.size();
  };
  EXPECT_EQ(n(0.6), 1U);
  EXPECT_EQ(n(0.65), 2U);
  EXPECT_EQ(n(0.88), 2U) << ".880797";
  EXPECT_EQ(n(0.9), 3U);
  EXPECT_EQ(n(0.97), 4U);
  EXPECT_EQ(n(1), 4U);
  EXPECT_EQ(n(0.6, 3), 3U) << "k_min";
  EXPECT_THAT(ids({.cumulative_probability = 0.9}, kFalling), ElementsAre(0, 1)) << "k is still the most";
  // Sigmoids .880797, .731059, .5, .268941: of their sum 2.380797 they are .37, .307, .21, .113.
  const RouterSpec sigmoid = {.experts_per_token = 4, .gating = Gating::kSigmoid};
  EXPECT_THAT(ids({.cumulative_probability = 0.36}, kFalling, sigmoid), ElementsAre(0));
  EXPECT_THAT(ids({.cumulative_probability = 0.67}, kFalling, sigmoid), ElementsAre(0, 1));
  EXPECT_THAT(ids({.cumulative_probability = 0.68}, kFalling, sigmoid), ElementsAre(0, 1, 2));
  EXPECT_THAT(ids({.experts_per_token = 4, .cumulative_probability = 0.5, .force = {3}}, kFalling),
              ElementsAre(0, 3))
      << "a forced one counts first";
}

TEST_F(SteeringTest, ThresholdsHoldWithOtherControls) {
  // .455054, .276004, .167405, .101536 of the best: 1, .6065, .3679, .2231.
  const auto n = [&](double threshold) {
    return ids({.experts_per_token = 4, .relative_threshold = threshold, .temperature = 2}, kFalling).size();
  };
  EXPECT_EQ(n(0.2), 4U);
  EXPECT_EQ(n(0.3), 3U);
  EXPECT_EQ(n(0.5), 2U);
  EXPECT_EQ(n(1), 1U);
  EXPECT_THAT(ids({.experts_per_token = 4, .relative_threshold = 0.9, .force = {3}}, kFalling),
              ElementsAre(0, 3))
      << "no threshold drops a forced one, and the best is the best";
}

TEST_F(SteeringTest, NoiseIsAFunctionOfSeedPositionLayerAndExpert) {
  // By tests of the same formula in Python.
  EXPECT_NEAR(steering_noise(0, 0, 0, 0), -1.9888359461085876, 1e-12);
  EXPECT_NEAR(steering_noise(7, 3, 2, 5), 0.5734217308451943, 1e-12);
  EXPECT_NEAR(steering_noise(7, 4, 2, 5), -0.5188841498113053, 1e-12);
  EXPECT_NEAR(steering_noise(uint64_t{1} << 62, 100000, 60, 255), 2.6964753678092386, 1e-12);
  double sum = 0;
  double squares = 0;
  constexpr int64_t kDraws = 100'000;
  for (int64_t i = 0; i < kDraws; ++i) {
    const double x = steering_noise(3, i / 64, 1, i % 64);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.015);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
}

TEST_F(SteeringTest, NoiseIsAddedToTheLogits) {
  const RouterSpec router = {.n_experts = 4, .experts_per_token = 2};
  SteeredSequence noisy(*runtime_, router, {.noise = 0.5, .noise_seed = 9}, {}, 2);
  SteeredSequence plain(*runtime_, router, {});
  noisy.go_to(70);
  for (const int64_t layer : {0, 1}) {
    std::vector<std::vector<float>> logits(2, kFalling);
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t e = 0; e < 4; ++e)
        logits[static_cast<size_t>(row)][static_cast<size_t>(e)] +=
            static_cast<float>(0.5 * steering_noise(9, 70 + row, layer, e));
    }
    const auto expected = plain.route(logits);
    const auto found = noisy.route({kFalling, kFalling}, layer);
    for (size_t row = 0; row < 2; ++row) expect(found[row], expected[row].ids, expected[row].weights);
    EXPECT_NE(found[0].weights, found[1].weights);
  }
}

TEST_F(SteeringTest, SmoothingMixesInTheScoresBefore) {
  const RoutingPolicy policy = {.smoothing = 0.25};
  const auto choices = route(policy, {kFalling, kRising, {0, 0, 0, 0}});
  expect(choices[0], {0, 1}, {.643914F, .236883F});
  expect(choices[1], {3, 2}, {.490950F, .199448F});
  expect(choices[2], {3, 2}, {.310238F, .237362F});
  const auto of_chosen =
      route(policy, {kFalling, kRising}, {.experts_per_token = 2, .gating = Gating::kSoftmaxChosen});
  expect(of_chosen[1], {3, 2}, {.711112F, .288888F});
}

TEST_F(SteeringTest, AContextGateAddsTheMeanOfTheScoresBefore) {
  const std::vector<std::vector<float>> logits = {kFalling, kRising, {0, 0, 0, 0}};
  const auto one = route({.context_gate = 10, .context_gate_tokens = 1}, logits);
  expect(one[0], {0, 1}, {.643914F, .236883F});
  expect(one[1], {0, 1}, {.893776F, .041477F});
  const auto two = route({.context_gate = 10, .context_gate_tokens = 2}, logits);
  expect(two[1], {0, 1}, {.893776F, .041477F});
  expect(two[2], {0, 1}, {.996710F, .001836F});
  EXPECT_NE(one[2].weights, two[2].weights);
  const auto away = route({.context_gate = -10, .context_gate_tokens = 1}, {kFalling, kFalling});
  EXPECT_THAT(away[1].ids, ElementsAre(2, 3)) << "-4.44, -1.37, -.87, -1.32";
}

TEST_F(SteeringTest, ClampLimitsWhatEntersTheGate) {
  const ModelSpec spec = spec_of(2, {.n_experts = 4, .experts_per_token = 2});
  const RoutingPolicy policy = {.layers = {{.first_layer = 1, .last_layer = 1, .input_clamp = 1.5}}};
  const auto steering = Steering::create(policy, spec, 4).value();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {-9, -1.5F, 1, 2, -9, nan, 1, 2};
  std::vector<BatchRow> rows(2);
  rows[1].steering = steering.get();
  Steer steer;
  steer.begin_step(rows);
  EXPECT_FALSE(steer.clamps(0));
  ASSERT_TRUE(steer.clamps(1));
  OpContext context{runtime_->team(), runtime_->kernels()};
  steer.clamp(context, 1, {x.data(), 2, 4});
  EXPECT_THAT(std::vector(x.begin(), x.begin() + 5), ElementsAre(-9, -1.5F, 1, 2, -1.5F));
  EXPECT_TRUE(std::isnan(x[5])) << "which makes the row fail";
  EXPECT_THAT(std::vector(x.begin() + 6, x.end()), ElementsAre(1, 1.5F));
}

TEST_F(SteeringTest, CallsBeyondTheCapacityGoToTheNextBest) {
  // ceil(4 * 1 / 4 * 1) = 1 call of an expert in four positions.
  RoutingPolicy policy = {.experts_per_token = 1, .capacity_factor = 1, .capacity_window = 4};
  const std::vector<std::vector<float>> alike(6, kFalling);
  const auto first_ids = [](const std::vector<SteeredChoice>& choices) {
    std::vector<int32_t> found;
    for (const SteeredChoice& choice : choices) found.push_back(choice.ids.empty() ? -1 : choice.ids[0]);
    return found;
  };
  EXPECT_THAT(first_ids(route(policy, alike)), ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_EQ(overflow_.n_moved, 4);
  EXPECT_EQ(overflow_.n_dropped, 0);
  policy.overflow = Overflow::kDrop;
  EXPECT_THAT(first_ids(route(policy, alike)), ElementsAre(0, -1, -1, -1, 0, -1));
  EXPECT_EQ(overflow_.n_moved, 0);
  EXPECT_EQ(overflow_.n_dropped, 4);
  policy = {.experts_per_token = 1, .capacity_factor = 2, .capacity_window = 4};
  EXPECT_THAT(first_ids(route(policy, alike)), ElementsAre(0, 0, 1, 1, 0, 0));
  policy.force = {0};
  EXPECT_THAT(first_ids(route(policy, alike)), ElementsAre(0, 0, 0, 0, 0, 0)) << "who must be called is";
  policy = {.experts_per_token = 2, .mask = {3}, .capacity_factor = 0.5, .capacity_window = 4};
  const auto two = route(policy, {kFalling, kFalling});  // one call of each of three
  EXPECT_THAT(two[0].ids, ElementsAre(0, 1));
  EXPECT_THAT(two[1].ids, ElementsAre(2));
  EXPECT_EQ(overflow_.n_moved, 1);
  EXPECT_EQ(overflow_.n_dropped, 1);
}

TEST_F(SteeringTest, CapacityHoldsAcrossPagesAndSteps) {
  const RoutingPolicy policy = {.experts_per_token = 1, .capacity_factor = 1, .capacity_window = 8};
  SteeredSequence sequence(*runtime_, {.n_experts = 4, .experts_per_token = 2}, policy);
  std::vector<int32_t> found;
  sequence.go_to(kKvPagePositions - 3);  // in the middle of a window, of which 5 are left unwritten:
  SteeredSequence whole(*runtime_, {.n_experts = 4, .experts_per_token = 2}, policy);
  std::vector<int32_t> expected;
  for (const SteeredChoice& choice :
       whole.route(std::vector<std::vector<float>>(static_cast<size_t>(2 * kKvPagePositions), kFalling)))
    expected.push_back(choice.ids.front());
  SteeredSequence single(*runtime_, {.n_experts = 4, .experts_per_token = 2}, policy);
  for (int64_t i = 0; i < 2 * kKvPagePositions; ++i) found.push_back(single.route({kFalling})[0].ids.front());
  EXPECT_EQ(found, expected);
  EXPECT_THAT(std::vector(found.begin(), found.begin() + 10), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 0, 0));
}

TEST_F(SteeringTest, ALayerHasWhatItsLastPartSays) {
  const RouterSpec router = {.n_experts = 4, .experts_per_token = 2};
  const RoutingPolicy policy = {
      .experts_per_token = 3,
      .mask = {0},
      .layers = {{.first_layer = 1, .last_layer = 2, .experts_per_token = 1, .mask = {{}}},
                 {.first_layer = 2, .last_layer = 2, .force = {{3}}}}};
  SteeredSequence sequence(*runtime_, router, policy, {}, 3);
  EXPECT_EQ(sequence.error, "");
  EXPECT_THAT(sequence.route({kFalling}, 0)[0].ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(sequence.route({kFalling}, 1)[0].ids, ElementsAre(0));
  EXPECT_THAT(sequence.route({kFalling}, 2)[0].ids, ElementsAre(3));
  EXPECT_EQ(policy.most_experts_per_token(), 3);
}

TEST_F(SteeringTest, ARowThatIsNotFiniteFailsAlone) {
  const RoutingPolicy policy = {.temperature = 2, .mask = {1}};
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const auto choices = route(policy, {kFalling, {1, bad, 0, 0}, kFalling});
    EXPECT_TRUE(choices[1].failed) << "though the masked expert is at fault";
    EXPECT_THAT(choices[1].ids, IsEmpty());
    EXPECT_EQ(choices[2].ids, choices[0].ids);
    EXPECT_FALSE(choices[2].failed);
  }
}

TEST_F(SteeringTest, WhatNoModelCanDoIsRefusedByName) {
  ModelSpec spec = spec_of(4, {.n_experts = 8, .experts_per_token = 2, .n_groups = 4, .n_groups_used = 2});
  spec.n_leading_dense_layers = 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    RoutingPolicy policy;
    const char* named;
  };
  const std::vector<Case> cases = {
      {{.experts_per_token = 5}, "experts_per_token: 5 is not allowed; 1 to 4"},
      {{.experts_per_token = -1}, "experts_per_token: -1"},
      {{.experts_per_token = 3, .mask = {0, 1, 2, 3, 4, 5}}, "2 of 8 experts are not masked"},
      {{.relative_threshold = 1.5}, "relative_threshold: 1.5"},
      {{.relative_threshold = nan}, "relative_threshold: nan"},
      {{.k_min = 0}, "k_min: 0"},
      {{.k_min = 9}, "k_min: 9"},
      {{.cumulative_probability = 0}, "cumulative_probability: 0"},
      {{.cumulative_probability = 1.01}, "cumulative_probability: 1.01"},
      {{.cumulative_probability = nan}, "cumulative_probability: nan"},
      {{.temperature = 0}, "temperature: 0"},
      {{.temperature = -1}, "temperature: -1"},
      {{.temperature = infinity}, "temperature: inf"},
      {{.mask = {8}}, "mask: there is no expert 8; 0 to 7"},
      {{.mask = {0, 1, 2, 3, 4, 5, 6, 7}}, "mask: all 8 experts are masked"},
      {{.force = {-1}}, "force: there is no expert -1"},
      {{.force = {0, 1, 2}}, "force: 3 experts are forced, and a token has 2"},
      {{.mask = {1}, .force = {1}}, "force: expert 1 is masked"},
      {{.bias = {{8, 1}}}, "bias: there is no expert 8"},
      {{.bias = {{1, nan}}}, "bias: nan of expert 1"},
      {{.noise = -1}, "noise: -1"},
      {{.noise_seed = -1}, "noise_seed: -1"},
      {{.smoothing = 1}, "smoothing: 1"},
      {{.smoothing = -0.1}, "smoothing: -0.1"},
      {{.context_gate = infinity}, "context_gate: inf"},
      {{.context_gate_tokens = 0}, "context_gate_tokens: 0"},
      {{.context_gate_tokens = 257}, "context_gate_tokens: 257"},
      {{.input_clamp = -1}, "input_clamp: -1"},
      {{.capacity_factor = nan}, "capacity_factor: nan"},
      {{.capacity_window = 0}, "capacity_window: 0"},
      {{.layers = {{.first_layer = 2, .last_layer = 4}}}, "layers 2-4: this model has the layers 0 to 3"},
      {{.layers = {{.first_layer = 0, .last_layer = 0}}}, "layers 0-0: none of them has experts"},
      {{.layers = {{.first_layer = 2, .last_layer = 1}}}, "layers 2-1"},
      {{.layers = {{.first_layer = 2, .last_layer = 2, .temperature = 0}}}, "layer 2: temperature: 0"},
      {{.mask = {0}, .layers = {{.first_layer = 3, .last_layer = 3, .force = {{0}}}}},
       "layer 3: force: expert 0 is masked"},
  };
  for (const Case& refused : cases) {
    const auto steering = Steering::create(refused.policy, spec, 8);
    ASSERT_FALSE(steering) << refused.named;
    EXPECT_EQ(steering.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(steering.error().message, HasSubstr(refused.named));
    EXPECT_THAT(steering.error().message, HasSubstr("policy: "));
  }
  const ModelSpec dense = spec_of(2, {});
  EXPECT_THAT(Steering::create({.temperature = 2}, dense, 8).error().message, HasSubstr("dense"));
  EXPECT_TRUE(Steering::create({}, dense, 8));
  EXPECT_FALSE(Steering::create({.experts_per_token = 4}, spec, 3)) << "a cap of the caller";
  EXPECT_TRUE(Steering::create({.experts_per_token = 4}, spec, 4));
}

TEST_F(SteeringTest, TheHashCoversEveryControl) {
  const RoutingPolicy all = {.layers = {{.first_layer = 1, .last_layer = 2}}};
  std::vector<RoutingPolicy> policies = {
      {},
      {.experts_per_token = 1},
      {.relative_threshold = 0.5},
      {.k_min = 2},
      {.cumulative_probability = 0.5},
      {.temperature = 2},
      {.mask = {1}},
      {.force = {1}},
      {.bias = {{1, 1}}},
      {.bias = {{1, 2}}},
      {.noise = 1},
      {.noise_seed = 1},
      {.smoothing = 0.5},
      {.context_gate = 1},
      {.context_gate_tokens = 3},
      {.input_clamp = 1},
      {.capacity_factor = 1},
      {.capacity_window = 8},
      {.overflow = Overflow::kDrop},
      all,
      {.layers = {{.first_layer = 1, .last_layer = 3}}},
      {.layers = {{.first_layer = 0, .last_layer = 2}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .experts_per_token = 0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .relative_threshold = 0.0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .k_min = 1}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .cumulative_probability = 1.0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .temperature = 1.0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .mask = {{}}}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .force = {{}}}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .bias = {{}}}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .noise = 0.0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .smoothing = 0.0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .context_gate = 0.0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .input_clamp = 0.0}}},
      {.layers = {{.first_layer = 1, .last_layer = 2, .capacity_factor = 0.0}}},
      {.layers = {all.layers[0], all.layers[0]}},
  };
  for (size_t i = 0; i < policies.size(); ++i) {
    EXPECT_EQ(policies[i].is_exact(), i == 0) << i;
    EXPECT_EQ(policies[i].hash(), RoutingPolicy(policies[i]).hash());
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(policies[i].hash(), policies[j].hash()) << i << " and " << j;
      EXPECT_FALSE(policies[i] == policies[j]) << i << " and " << j;
    }
  }
}

TEST(SimplifiedPolicy, SaysTheModelsOwnNumberAsItsDefault) {
  const RouterSpec router = {.n_experts = 8, .experts_per_token = 2};
  EXPECT_TRUE(simplified({.experts_per_token = 2}, router).is_exact());
  EXPECT_EQ(simplified({.experts_per_token = 3}, router), (RoutingPolicy{.experts_per_token = 3}));
  const RoutingPolicy of_layer = {.experts_per_token = 4, .layers = {{.experts_per_token = 2}}};
  EXPECT_EQ(simplified(of_layer, router),
            (RoutingPolicy{.experts_per_token = 4, .layers = {{.experts_per_token = 0}}}));
}

TEST(SimplifiedPolicy, LeavesOutPartsThatSetNothing) {
  const RouterSpec router = {.n_experts = 8, .experts_per_token = 2};
  EXPECT_TRUE(simplified({.layers = {{.first_layer = 1, .last_layer = 3}, {}}}, router).is_exact());
  const LayerPolicy part = {.first_layer = 1, .last_layer = 1, .mask = {{}}};
  EXPECT_EQ(simplified({.layers = {{}, part}}, router), (RoutingPolicy{.layers = {part}}));
}

}  // namespace
}  // namespace soli
