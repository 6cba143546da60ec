#include "observe/activation_recorder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "observe/traces.h"

namespace soli {
namespace {

RouterSpec four_experts() {
  RouterSpec spec;
  spec.n_experts = 4;
  spec.experts_per_token = 2;
  return spec;
}

std::vector<int64_t> positions_of(const RequestChoices& choices) {
  std::vector<int64_t> positions;
  for (const RecordedRoute& route : choices.routes) positions.push_back(route.position);
  return positions;
}

TEST(GateEntropy, IsInBitsOfTheWholeDistribution) {
  EXPECT_NEAR(gate_entropy_bits(std::vector<float>{0.25F, 0.25F, 0.25F, 0.25F}), 2, 1e-6);
  EXPECT_NEAR(gate_entropy_bits(std::vector<float>{0.5F, 0.25F, 0.25F, 0}), 1.5, 1e-6);
  EXPECT_EQ(gate_entropy_bits(std::vector<float>{0, 1, 0}), 0);
  EXPECT_EQ(gate_entropy_bits(std::vector<float>{1}), 0);
}

TEST(GateEntropy, NormalisesScoresThatDoNotSumToOne) {
  EXPECT_NEAR(gate_entropy_bits(std::vector<float>{0.9F, 0.9F}), 1, 1e-6);
  EXPECT_NEAR(gate_entropy_bits(std::vector<float>{0.8F, 0.4F, 0.4F}), 1.5, 1e-6);
}

TEST(GateEntropy, IsZeroWithoutAPositiveScore) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(gate_entropy_bits(std::vector<float>{nan, -1, 0}), 0);
  EXPECT_EQ(gate_entropy_bits(std::vector<float>{std::numeric_limits<float>::infinity(), 1}), 0);
  EXPECT_EQ(gate_entropy_bits({}), 0);
}

TEST(GateEntropy, IsRightToAMillionthOfABitForAnyNumberOfScores) {
  Rng rng(7);
  for (const size_t n : {1, 2, 7, 8, 9, 16, 60, 64, 128, 257}) {
    for (const double spread : {0.1, 3.0, 40.0}) {
      std::vector<float> scores(n);
      for (float& score : scores) score = static_cast<float>(std::exp(spread * (rng.next_unit() - 1)));
      double sum = 0;
      double weighted = 0;
      for (const float score : scores) {
        sum += score;
        weighted += score * std::log2(static_cast<double>(score));
      }
      EXPECT_NEAR(gate_entropy_bits(scores), std::log2(sum) - weighted / sum, 2e-6) << n << ", " << spread;
    }
  }
}

TEST(ActivationRecorder, RecordsEveryRowOfAMixedBatch) {
  const RouterSpec spec = four_experts();
  std::vector<BatchRow> rows(3);
  for (size_t i = 0; i < 3; ++i) {
    rows[i].request = i == 1 ? 8 : 7;
    rows[i].position = static_cast<int64_t>(10 * i);
    rows[i].token = static_cast<int32_t>(i) + 500;
  }
  const std::vector<float> scores = {1, 0, 0, 0, -9, 0.5F, 0.5F, 0, 0, -9, 0.25F, 0.25F, 0.25F, 0.25F};
  RouterView view;
  view.layer = 3;
  view.rows = rows;
  view.spec = &spec;
  view.scores = {scores.data(), 3, 4, 5};
  Choice choice;
  choice.row_begin = {0, 2, 3, 5};
  choice.ids = {0, 1, 2, 3, 0};
  choice.weights = {0.75F, 0.25F, 1, 0.5F, 0.5F};
  ActivationRecorder recorder;
  recorder.on_route(view, choice);

  const RequestChoices choices = recorder.choices_of(7);
  ASSERT_EQ(choices.routes.size(), 2U);
  EXPECT_EQ(positions_of(choices), (std::vector<int64_t>{0, 20}));
  EXPECT_EQ(choices.routes[1].token, 502);
  EXPECT_EQ(choices.routes[1].layer, 3);
  EXPECT_NEAR(choices.routes[1].gate_entropy_bits, 2, 1e-6);
  const std::span<const ExpertCall> calls = choices.calls_of(choices.routes[1]);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].expert, 3);
  EXPECT_EQ(calls[1].expert, 0);
  EXPECT_EQ(calls[1].weight, 0.5F);
  EXPECT_EQ(recorder.choices_of(8).calls.size(), 1U);
  EXPECT_TRUE(recorder.choices_of(9).routes.empty());
}

TEST(ActivationRecorder, OrdersByPositionAndLayerAndKeepsTheLaterOfTwo) {
  const RouterSpec spec = four_experts();
  ActivationRecorder recorder;
  for (const int64_t layer : {1, 0}) {
    for (const int64_t position : {1, 0}) record(recorder, spec, 1, position, layer, {{0}, {1}});
  }
  record(recorder, spec, 1, 1, 0, {{3}, {1}});  // computed again, as after preemption
  const RequestChoices choices = recorder.choices_of(1);
  EXPECT_EQ(positions_of(choices), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(choices.routes[2].layer, 0);
  EXPECT_EQ(choices.calls_of(choices.routes[2])[0].expert, 3);
  EXPECT_EQ(choices.calls_of(choices.routes[3])[0].expert, 0);
}

TEST(ActivationRecorder, RecordsThatARowChoseNothing) {
  ActivationRecorder recorder(2);
  for (int64_t position = 0; position < 5; ++position) record(recorder, four_experts(), 1, position, 0, {});
  const RequestChoices choices = recorder.choices_of(1);
  EXPECT_EQ(positions_of(choices), (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(choices.calls_of(choices.routes[1]).empty());
  EXPECT_EQ(recorder.n_dropped(), 3);
}

TEST(ActivationRecorder, DoesNotRecordARowThatCouldNotChoose) {
  ActivationRecorder recorder;
  record(recorder, four_experts(), 1, 0, 0, {}, std::numeric_limits<float>::quiet_NaN());
  record(recorder, four_experts(), 1, 0, 0, {}, std::numeric_limits<float>::infinity());
  EXPECT_EQ(recorder.n_routes(), 0);
  EXPECT_EQ(recorder.n_dropped(), 0);
}

TEST(ActivationRecorder, OverwritesTheOldestAndCountsIt) {
  const RouterSpec spec = four_experts();
  ActivationRecorder recorder(7);  // three routes of two calls, and one call of room
  for (int64_t position = 0; position < 20; ++position) {
    const auto e = static_cast<int32_t>(position % 4);
    record(recorder, spec, 1, position, 0, {{e, (e + 1) % 4}, {0.5F, static_cast<float>(position)}});
    EXPECT_EQ(recorder.n_routes() + recorder.n_dropped(), position + 1);
  }
  EXPECT_EQ(recorder.n_dropped(), 17);
  const RequestChoices choices = recorder.choices_of(1);
  EXPECT_EQ(choices.n_dropped, 17);
  EXPECT_EQ(positions_of(choices), (std::vector<int64_t>{17, 18, 19}));
  for (const RecordedRoute& route : choices.routes) {
    ASSERT_EQ(route.n_calls, 2);
    EXPECT_EQ(choices.calls_of(route)[0].expert, route.position % 4);
    EXPECT_EQ(choices.calls_of(route)[1].weight, static_cast<float>(route.position));
  }
}

TEST(ActivationRecorder, HoldsRoutesOfMixedLengthsWithinItsCapacity) {
  const RouterSpec spec = four_experts();
  ActivationRecorder recorder(5);
  const std::vector<TestRoute> routes = {{{0}, {1}}, {{0, 1, 2, 3}, {1, 1, 1, 1}}, {{2, 3}, {1, 1}}};
  for (int64_t position = 0; position < 30; ++position) {
    record(recorder, spec, 1, position, 0, routes[static_cast<size_t>(position % 3)]);
    EXPECT_LE(recorder.choices_of(1).calls.size(), 5U);
    EXPECT_EQ(recorder.choices_of(1).routes.back().position, position);
  }
}

TEST(ActivationRecorder, DropsARouteThatIsLongerThanTheRing) {
  ActivationRecorder recorder(1);
  record(recorder, four_experts(), 1, 0, 0, {{0}, {1}});
  record(recorder, four_experts(), 1, 1, 0, {{0, 1}, {1, 1}});
  EXPECT_EQ(recorder.n_dropped(), 1);
  EXPECT_EQ(positions_of(recorder.choices_of(1)), (std::vector<int64_t>{0}));
}

TEST(ActivationRecorder, KeepsEverythingOverManyBlocksOfMemory) {
  const RouterSpec spec = four_experts();
  constexpr int64_t kCapacity = 50'000;  // some blocks, the last of them in part
  ActivationRecorder recorder(kCapacity);
  for (int64_t position = 0; position < 2 * kCapacity; ++position) {
    record(recorder, spec, 1, position, 0,
           {{static_cast<int32_t>(position % 3)}, {static_cast<float>(position)}});
  }
  EXPECT_EQ(recorder.n_dropped(), kCapacity);
  const RequestChoices choices = recorder.choices_of(1);
  ASSERT_EQ(choices.routes.size(), static_cast<size_t>(kCapacity));
  for (int64_t i = 0; i < kCapacity; ++i) {
    const RecordedRoute& route = choices.routes[static_cast<size_t>(i)];
    ASSERT_EQ(route.position, kCapacity + i);
    ASSERT_EQ(choices.calls_of(route)[0].expert, route.position % 3);
    ASSERT_EQ(choices.calls_of(route)[0].weight, static_cast<float>(route.position));
  }
}

TEST(ActivationRecorder, ClearForgetsRoutesAndDrops) {
  ActivationRecorder recorder(2);
  for (int64_t position = 0; position < 5; ++position)
    record(recorder, four_experts(), 1, position, 0, {{0}, {1}});
  recorder.clear();
  EXPECT_EQ(recorder.n_routes(), 0);
  EXPECT_EQ(recorder.n_dropped(), 0);
  record(recorder, four_experts(), 2, 9, 0, {{3}, {1}});
  const RequestChoices choices = recorder.choices_of(2);
  ASSERT_EQ(choices.routes.size(), 1U);
  EXPECT_EQ(choices.calls_of(choices.routes[0])[0].expert, 3);
}

}  // namespace
}  // namespace soli
