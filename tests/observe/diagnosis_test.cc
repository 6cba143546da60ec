// What the diagnosis of a token sees, and that it changes nothing. tests/reference/diagnosis_test.cc looks at
// its numbers.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "observe/diagnosis_recorder.h"
#include "support/loaded_engine.h"

namespace soli {
namespace {

std::vector<int32_t> golden_prompt(const GoldenCase& golden) {
  return golden.json["prompts"].back()["tokens"].get<std::vector<int32_t>>();
}

bool same_call(const FfnCall& a, const FfnCall& b) {
  return a.kind == b.kind && a.expert == b.expert && a.weight == b.weight &&
         a.residual_ratio == b.residual_ratio && a.active_share == b.active_share;
}

void expect_same(const TokenDiagnosis& a, const TokenDiagnosis& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  ASSERT_EQ(a.calls.size(), b.calls.size());
  ASSERT_EQ(a.said.size(), b.said.size());
  for (int64_t position = 0; position < a.n_tokens(); ++position) {
    for (int64_t layer = 0; layer < a.n_layers; ++layer) {
      const LayerPath& in_a = a.path(position, layer);
      const LayerPath& in_b = b.path(position, layer);
      EXPECT_EQ(in_a.residual_norm, in_b.residual_norm);
      EXPECT_EQ(in_a.added_ratio, in_b.added_ratio);
      ASSERT_EQ(in_a.n_calls, in_b.n_calls);
      for (int64_t i = 0; i < in_a.n_calls; ++i) {
        const auto call_a = static_cast<size_t>(in_a.first_call + i);
        const auto call_b = static_cast<size_t>(in_b.first_call + i);
        EXPECT_TRUE(same_call(a.calls[call_a], b.calls[call_b])) << position << ", layer " << layer;
        const auto said_a = a.said_by(in_a.first_call + i);
        const auto said_b = b.said_by(in_b.first_call + i);
        for (size_t s = 0; s < said_a.size(); ++s) {
          EXPECT_EQ(said_a[s].token, said_b[s].token);
          EXPECT_EQ(said_a[s].probability, said_b[s].probability);
        }
      }
    }
  }
  ASSERT_EQ(a.used.size(), b.used.size());
  for (size_t i = 0; i < a.used.size(); ++i) {
    EXPECT_EQ(a.used[i].n_calls, b.used[i].n_calls);
    EXPECT_EQ(a.used[i].n_dead, b.used[i].n_dead);
  }
}

/// The largest difference between what a layer adds and the sum of its parts, as a share of its length.
class SumOfParts final : public FfnObserver {
 public:
  void on_ffn(const FfnView& view) override {
    for (int64_t row = 0; row < view.added.rows; ++row) {
      std::vector<double> sum(static_cast<size_t>(view.added.cols), 0.0);
      const auto add = [&](float weight, const float* y) {
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] += static_cast<double>(weight) * static_cast<double>(y[i]);
      };
      if (view.choice != nullptr) {
        for (int32_t slot = view.choice->row_begin[static_cast<size_t>(row)];
             slot < view.choice->row_begin[static_cast<size_t>(row) + 1]; ++slot)
          add(view.choice->weights[static_cast<size_t>(slot)], view.expert_outputs.row(slot));
      }
      if (view.common_outputs.rows > 0)
        add(view.common_weights.rows > 0 ? *view.common_weights.row(row) : 1, view.common_outputs.row(row));
      compare(sum, view.added.row(row));
    }
    ++n_layers;
  }

  double largest = 0;
  int64_t n_layers = 0;

 private:
  void compare(const std::vector<double>& sum, const float* added) {
    double difference = 0;
    double length = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      difference += std::pow(sum[i] - static_cast<double>(added[i]), 2);
      length += sum[i] * sum[i];
    }
    largest = std::max(largest, std::sqrt(difference / length));
  }
};

class Diagnosed : public testing::TestWithParam<std::string> {
 protected:
  Diagnosed() : golden_(GetParam()) {}

  LoadedEngine load(const EngineOptions& options = {}) const {
    return LoadedEngine::create(golden_.model_path(), {.n_threads = 2}, options).value();
  }

  static TokenDiagnosis diagnose(LoadedEngine& loaded, const Request& request, Answer* answer = nullptr,
                                 const DiagnosisRecorder::Options& options = {}) {
    DiagnosisRecorder recorder(*loaded.model, options);
    loaded.engine->set_hooks({.ffn = &recorder});
    const Answer given = run_together(*loaded.engine, {request}).front();
    loaded.engine->set_hooks({});
    if (answer != nullptr) *answer = given;
    return std::move(recorder).finish();
  }

  const GoldenCase golden_;
};

TEST_P(Diagnosed, LogitsKeepEveryBit) {
  LoadedEngine loaded = load({.chunk_rows = 13});
  const Request request = greedy_with_logits(golden_prompt(golden_), 5);
  const Answer unseen = run_together(*loaded.engine, {request}).front();
  Answer seen;
  const TokenDiagnosis diagnosis = diagnose(loaded, request, &seen);
  EXPECT_TRUE(same_bits(unseen, seen));
  // The last one of the answer goes through no layer.
  EXPECT_EQ(diagnosis.n_tokens(), std::ssize(request.prompt) + std::ssize(seen.tokens) - 1);
}

TEST_P(Diagnosed, PartsOfALayerAddUp) {
  LoadedEngine loaded = load();
  SumOfParts parts;
  loaded.engine->set_hooks({.ffn = &parts});
  run_together(*loaded.engine, {{.prompt = golden_prompt(golden_), .max_new_tokens = 0}});
  EXPECT_EQ(parts.n_layers, loaded.model->spec().n_layers);
  EXPECT_LE(parts.largest, 1e-6);
}

TEST_P(Diagnosed, IsTheSameForAnyChunksAndWithExpertsOnDisk) {
  LoadedEngine loaded = load();
  const Request request = greedy_with_logits(golden_prompt(golden_), 3);
  const TokenDiagnosis whole = diagnose(loaded, request);
  ASSERT_TRUE(loaded.restart({.chunk_rows = 7}));
  expect_same(diagnose(loaded, request), whole);
  if (!loaded.model->spec().is_moe()) return;
  const auto source = ExpertSource::create(loaded.model->file(), loaded.runtime->kernels()).value();
  auto tiered = LoadedEngine::create_tiered(golden_.model_path(), {.n_threads = 2}, {},
                                            {.slot_bytes = ExpertSlots::least_bytes(source)});
  ASSERT_TRUE(tiered) << tiered.error().message;
  expect_same(diagnose(*tiered, request), whole);
}

INSTANTIATE_TEST_SUITE_P(Golden, Diagnosed, testing::ValuesIn(golden_cases()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(DiagnosisRecorder, KeepsTheFirstTokensAndSaysNothingWhereNobodyAsks) {
  const GoldenCase golden("mixtral");
  auto loaded = LoadedEngine::create(golden.model_path(), {.n_threads = 2}).value();
  int64_t n_done = 0;
  DiagnosisRecorder recorder(*loaded.model,
                             {.max_tokens = 9, .n_top = 0, .on_progress = [&](int64_t n) { n_done = n; }});
  loaded.engine->set_hooks({.ffn = &recorder});
  const std::vector<int32_t> prompt = golden_prompt(golden);
  run_together(*loaded.engine, {{.prompt = prompt, .max_new_tokens = 0}});
  const TokenDiagnosis diagnosis = std::move(recorder).finish();
  const int64_t n_layers = loaded.model->spec().n_layers;
  EXPECT_EQ(diagnosis.tokens, std::vector<int32_t>(prompt.begin(), prompt.begin() + 9));
  EXPECT_EQ(std::ssize(diagnosis.calls), 9 * n_layers * loaded.model->spec().router.experts_per_token);
  EXPECT_TRUE(diagnosis.said.empty());
  EXPECT_EQ(n_done, 9 * n_layers);
}

TEST(DiagnosisRecorder, FollowsThePolicy) {
  const GoldenCase golden("mixtral");
  auto loaded = LoadedEngine::create(golden.model_path(), {.n_threads = 2}).value();
  DiagnosisRecorder recorder(*loaded.model, {});
  loaded.engine->set_hooks({.ffn = &recorder});
  Request request = {.prompt = golden_prompt(golden), .max_new_tokens = 0};
  request.policy.experts_per_token = 1;
  run_together(*loaded.engine, {request});
  const TokenDiagnosis diagnosis = std::move(recorder).finish();
  EXPECT_EQ(std::ssize(diagnosis.calls), diagnosis.n_tokens() * diagnosis.n_layers);
}

ModelSpec two_experts_of_70_units() {
  ModelSpec spec;
  spec.n_layers = 2;
  spec.n_leading_dense_layers = 1;
  spec.ffn_width = 3;
  spec.expert_width = 70;
  spec.shared_expert_width = 2;
  spec.router.n_experts = 2;
  return spec;
}

TEST(ActiveUnits, CountsWhatLiesAboveAShareOfTheRms) {
  ActiveUnits units(two_experts_of_70_units(), 0.5);
  // Its rms is 5 / sqrt(3), half of which is 1.44.
  EXPECT_EQ(units.add(0, units.common(), std::vector<float>{0, -3, 4}), 2);
  EXPECT_EQ(units.n_dead(0, units.common()), 1);
  EXPECT_EQ(units.n_units(0, units.common()), 3);
  EXPECT_EQ(units.add(0, units.common(), std::vector<float>{5, 1, 1}), 1);
  EXPECT_EQ(units.n_dead(0, units.common()), 0);
  EXPECT_EQ(units.add(0, units.common(), std::vector<float>{0, 0, 0}), 0);
}

TEST(ActiveUnits, KeepsExpertsApart) {
  ActiveUnits units(two_experts_of_70_units(), 0.1);
  std::vector<float> inner(70, 0.0F);
  inner[0] = inner[63] = inner[64] = inner[69] = 1;
  EXPECT_EQ(units.add(1, 1, inner), 4);
  EXPECT_EQ(units.n_dead(1, 1), 66);
  EXPECT_EQ(units.n_dead(1, 0), 70);
  EXPECT_EQ(units.n_dead(1, units.common()), 2);
  EXPECT_EQ(units.n_dead(0, units.common()), 3);
  EXPECT_EQ(units.n_units(1, units.common()), 2);
}

}  // namespace
}  // namespace soli
