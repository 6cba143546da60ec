// The diagnosis of a token against the reference: what each feed-forward adds, what it would say, and which
// of its units are active.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "observe/diagnosis_recorder.h"
#include "reference/compare.h"
#include "reference/forward.h"
#include "reference/math.h"
#include "support/loaded_engine.h"

namespace soli::reference {
namespace {

constexpr int64_t kDiagnosedContext = 256;  // tests/golden/README.md
constexpr double kDiagnosisTolerance = 1e-3;
constexpr int64_t kSaid = 4;
constexpr double kActiveAbove = 0.3;

/// What the reference says of one call.
struct ExpectedCall {
  double weight = 1;
  FfnWork work;
};

double norm_of(const Vector& x) { return std::sqrt(dot(x, x)); }

/// Active for certain, and perhaps: rounding may decide of units that lie on the limit.
struct ActiveCount {
  int64_t least = 0;
  int64_t most = 0;
};

ActiveCount count_active(const Vector& inner, std::vector<int>& ever) {
  const double limit = kActiveAbove * norm_of(inner) / std::sqrt(static_cast<double>(inner.size()));
  ActiveCount count;
  ever.resize(inner.size());
  for (size_t i = 0; i < inner.size(); ++i) {
    const int sure = std::abs(inner[i]) > limit * (1 + kDiagnosisTolerance) ? 2 : 0;
    const int perhaps = std::abs(inner[i]) > limit * (1 - kDiagnosisTolerance) ? 1 : 0;
    count.least += sure / 2;
    count.most += perhaps;
    ever[i] = std::max({ever[i], sure, perhaps});
  }
  return count;
}

TokenDiagnosis diagnose(const GoldenCase& golden, const std::vector<int32_t>& tokens) {
  EngineOptions options = {.context_length = kDiagnosedContext,
                           .chunk_rows = 16,
                           .kv_type = KvType::kF32,
                           .activations = ActivationPrecision::kF32};
  auto loaded = LoadedEngine::create(golden.model_path(), {.n_threads = 2}, options).value();
  DiagnosisRecorder recorder(
      *loaded.model,
      {.activations = ActivationPrecision::kF32, .n_top = kSaid, .active_threshold = kActiveAbove});
  loaded.engine->set_hooks({.ffn = &recorder});
  const Answer answer = run_together(*loaded.engine, {{.prompt = tokens, .max_new_tokens = 0}}).front();
  EXPECT_FALSE(answer.error.has_value());
  return std::move(recorder).finish();
}

Choices choices_in(const TokenDiagnosis& diagnosis) {
  Choices choices;
  for (int64_t position = 0; position < diagnosis.n_tokens(); ++position) {
    for (int64_t layer = 0; layer < diagnosis.n_layers; ++layer) {
      for (const FfnCall& call : diagnosis.calls_of(diagnosis.path(position, layer))) {
        if (call.kind == FfnKind::kRouted)
          choices[{layer, position}][call.expert] = static_cast<double>(call.weight);
      }
    }
  }
  return choices;
}

class DiagnosedGolden : public testing::TestWithParam<const char*> {
 protected:
  DiagnosedGolden() : golden_(GetParam()), file_(golden_.model_path()) {
    tokens_ = golden_.json["prompts"].back()["tokens"].get<std::vector<int32_t>>();
    diagnosis_ = diagnose(golden_, tokens_);
    expected_ = forward(file_, tokens_, kDiagnosedContext, choices_in(diagnosis_));
    router_ = router_spec(file_, rules_of(file_.architecture()));
  }

  ExpectedCall expected_call(const FfnCall& call, std::pair<int64_t, int64_t> place) const {
    const Vector& x = expected_.ffn_inputs.at(place).normed;
    const int64_t layer = place.first;
    if (call.kind == FfnKind::kDense) return {1, work_of_dense(file_, layer, x)};
    if (call.kind == FfnKind::kShared)
      return {shared_weight(file_, layer, x), work_of_shared(file_, layer, x)};
    return {expected_.choices.at(place).at(call.expert),
            work_of_expert(file_, router_, layer, call.expert, x)};
  }

  /// How many calls of each kind a token has in this layer.
  void check_kinds(std::span<const FfnCall> calls, std::pair<int64_t, int64_t> place) const {
    const auto count = [&](FfnKind kind) {
      return std::count_if(calls.begin(), calls.end(),
                           [&](const FfnCall& call) { return call.kind == kind; });
    };
    const bool is_routed = expected_.choices.count(place) > 0;
    EXPECT_EQ(count(FfnKind::kRouted), is_routed ? std::ssize(expected_.choices.at(place)) : 0);
    EXPECT_EQ(count(FfnKind::kDense), is_routed ? 0 : 1);
    const bool has_shared = file_.has(in_layer(place.first, "ffn_gate_shexp.weight"));
    EXPECT_EQ(count(FfnKind::kShared), has_shared ? 1 : 0);
  }

  void check_said(int64_t number, const Vector& contribution) const {
    const Vector probabilities = softmax(head_of(file_, contribution));
    const auto said = diagnosis_.said_by(number);
    std::vector<bool> is_said(probabilities.size(), false);
    for (size_t i = 0; i < said.size(); ++i) {
      const double wanted = probabilities.at(static_cast<size_t>(said[i].token));
      EXPECT_NEAR(static_cast<double>(said[i].probability), wanted, kDiagnosisTolerance * wanted + 1e-6);
      if (i > 0) {
        EXPECT_GE(said[i - 1].probability, said[i].probability);
      }
      is_said[static_cast<size_t>(said[i].token)] = true;
    }
    for (size_t token = 0; token < probabilities.size(); ++token) {
      if (is_said[token]) continue;
      EXPECT_LE(probabilities[token],
                static_cast<double>(said.back().probability) * (1 + kDiagnosisTolerance));
    }
  }

  void check_call(int64_t number, std::pair<int64_t, int64_t> place, Vector& sum) {
    const FfnCall& call = diagnosis_.calls[static_cast<size_t>(number)];
    const ExpectedCall expected = expected_call(call, place);
    Vector contribution(expected.work.output.size(), 0.0);
    add_to(contribution, expected.work.output, expected.weight * residual_scale(file_));
    add_to(sum, contribution);
    const double ratio = norm_of(contribution) / norm_of(expected_.ffn_inputs.at(place).residual);
    EXPECT_NEAR(static_cast<double>(call.weight), expected.weight, 1e-4);
    EXPECT_NEAR(static_cast<double>(call.residual_ratio), ratio, kDiagnosisTolerance * ratio);
    const auto width = static_cast<double>(expected.work.inner.size());
    const int64_t n_active = std::lround(static_cast<double>(call.active_share) * width);
    const ActiveCount count =
        count_active(expected.work.inner, ever_[{place.first, static_cast<int>(call.kind), call.expert}]);
    EXPECT_GE(n_active, count.least);
    EXPECT_LE(n_active, count.most);
    check_said(number, contribution);
  }

  void check_dead_units() const {
    EXPECT_EQ(diagnosis_.used.size(), ever_.size());
    for (const UsedFfn& used : diagnosis_.used) {
      const auto& ever = ever_.at({used.layer, static_cast<int>(used.kind), used.expert});
      EXPECT_EQ(used.n_units, std::ssize(ever));
      EXPECT_LE(used.n_dead, std::count_if(ever.begin(), ever.end(), [](int unit) { return unit < 2; }));
      EXPECT_GE(used.n_dead, std::count(ever.begin(), ever.end(), 0));
    }
  }

  const GoldenCase golden_;
  const TensorFile file_;
  std::vector<int32_t> tokens_;
  TokenDiagnosis diagnosis_;
  Output expected_;
  RouterSpec router_;
  std::map<std::tuple<int64_t, int, int32_t>, std::vector<int>> ever_;  // [units] 0 dead, 1 perhaps, 2 alive
};

TEST_P(DiagnosedGolden, EveryCallIsThatOfTheReference) {
  ASSERT_EQ(diagnosis_.tokens, tokens_);
  for (const auto& [place, input] : expected_.ffn_inputs) {
    const auto& [layer, position] = place;
    SCOPED_TRACE("layer " + std::to_string(layer) + " position " + std::to_string(position));
    const LayerPath& path = diagnosis_.path(position, layer);
    const double residual = norm_of(input.residual);
    EXPECT_NEAR(static_cast<double>(path.residual_norm), residual, 1e-4 * residual);
    check_kinds(diagnosis_.calls_of(path), place);
    Vector sum(input.residual.size(), 0.0);
    for (int64_t i = 0; i < path.n_calls; ++i) check_call(path.first_call + i, place, sum);
    const double added = norm_of(sum) / residual;
    EXPECT_NEAR(static_cast<double>(path.added_ratio), added, kDiagnosisTolerance * added);
  }
  check_dead_units();
}

INSTANTIATE_TEST_SUITE_P(All, DiagnosedGolden,
                         testing::Values("bailingmoe2", "deepseek2-lite", "deepseek2-v3", "dots1",
                                         "ernie4_5-moe", "glm4moe", "gpt-oss", "granitemoe", "hunyuan-moe",
                                         "llama-dense", "minimax-m2", "mixtral", "olmoe", "phimoe",
                                         "qwen2-dense", "qwen2moe", "qwen3-dense", "qwen3moe", "qwen3vlmoe"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace soli::reference
