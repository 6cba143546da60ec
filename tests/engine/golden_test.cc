// The engine against logits, routings and greedy tokens of an independent implementation, on every
// instruction set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "support/loaded_engine.h"

namespace soli {
namespace {

/// That of the goldens: longrope goes by it.
constexpr int64_t kContext = 256;

/// Keeps the choices of the layers, by layer and position.
class ChoiceKeeper : public RouterObserver {
 public:
  void on_route(const RouterView& view, const Choice& choice) override {
    for (size_t row = 0; row < view.rows.size(); ++row) {
      auto& kept = choices[{view.layer, view.rows[row].position}];
      kept.clear();
      const auto ids = choice.ids_of(static_cast<int64_t>(row));
      const auto weights = choice.weights_of(static_cast<int64_t>(row));
      for (size_t i = 0; i < ids.size(); ++i) kept[ids[i]] = weights[i];
    }
  }
  std::map<std::pair<int64_t, int64_t>, std::map<int32_t, float>> choices;
};

double relative_distance(const std::vector<std::vector<float>>& ours, const std::vector<float>& golden) {
  double squares = 0;
  double total = 0;
  size_t i = 0;
  for (const std::vector<float>& row : ours) {
    for (const float value : row) {
      const double difference = static_cast<double>(value) - static_cast<double>(golden[i]);
      squares += difference * difference;
      total += static_cast<double>(golden[i]) * static_cast<double>(golden[i]);
      ++i;
    }
  }
  return std::sqrt(squares / total);
}

/// Every expert id of the golden, and the weight per id within `tolerance`.
void check_routing(const GoldenCase& golden, const nlohmann::json& prompt, const ChoiceKeeper& keeper,
                   double tolerance) {
  const char* key = golden.is_quantised() ? "moe_deq" : "moe";
  if (!prompt.contains(key)) return;
  for (const auto& layer : prompt[key]) {
    const auto ids = read_binary<int32_t>(golden.folder + layer["ids"].get<std::string>());
    const auto weights = read_binary<float>(golden.folder + layer["weights"].get<std::string>());
    const auto k = layer["k"].get<size_t>();
    for (size_t position = 0; position < prompt["n_tokens"].get<size_t>(); ++position) {
      const auto& ours = keeper.choices.at({layer["layer"].get<int64_t>(), static_cast<int64_t>(position)});
      ASSERT_EQ(ours.size(), k);
      for (size_t i = position * k; i < (position + 1) * k; ++i) {
        ASSERT_TRUE(ours.count(ids[i])) << "layer " << layer["layer"] << " position " << position;
        EXPECT_NEAR(ours.at(ids[i]), weights[i], tolerance);
      }
    }
  }
}

/// The largest distance of a routing weight of llama.cpp with 8-bit activations from its own exact one.
double distance_of_native_weights(const GoldenCase& golden, const nlohmann::json& prompt) {
  double largest = 0;
  for (size_t layer = 0; layer < prompt["moe"].size(); ++layer) {
    std::array<std::map<std::pair<size_t, int32_t>, float>, 2> weight_of;  // by position and expert
    for (const auto& [place, key] : {std::pair{0, "moe"}, {1, "moe_deq"}}) {
      const auto& json = prompt[key][layer];
      const auto ids = read_binary<int32_t>(golden.folder + json["ids"].get<std::string>());
      const auto weights = read_binary<float>(golden.folder + json["weights"].get<std::string>());
      const auto k = json["k"].get<size_t>();
      for (size_t i = 0; i < ids.size(); ++i)
        weight_of[static_cast<size_t>(place)][{i / k, ids[i]}] = weights[i];
    }
    for (const auto& [choice, weight] : weight_of[0]) {
      const auto exact = weight_of[1].find(choice);
      if (exact == weight_of[1].end()) continue;
      largest = std::max(largest, std::abs(static_cast<double>(weight) - static_cast<double>(exact->second)));
    }
  }
  return largest;
}

void check_prompt(const GoldenCase& golden, const nlohmann::json& prompt, LoadedEngine& loaded,
                  ChoiceKeeper& keeper) {
  const bool quantised = golden.is_quantised();
  const auto expected =
      read_binary<float>(golden.folder + prompt[quantised ? "logits_deq" : "logits"].get<std::string>());
  const auto greedy = prompt[quantised ? "greedy_deq" : "greedy"].get<std::vector<int32_t>>();
  keeper.choices.clear();
  const auto tokens = prompt["tokens"].get<std::vector<int32_t>>();
  const Answer answer =
      run_together(*loaded.engine, {greedy_with_logits(tokens, static_cast<int64_t>(greedy.size()))}).front();
  ASSERT_EQ(answer.logits.size(), tokens.size() + greedy.size());
  const std::vector<std::vector<float>> ours(answer.logits.begin(),
                                             answer.logits.begin() + static_cast<long>(tokens.size()));
  const double tolerance = golden.json["tolerance"][quantised ? "deq_f32" : "f32"].get<double>();
  EXPECT_LE(relative_distance(ours, expected), tolerance);
  EXPECT_EQ(answer.tokens, greedy);
  check_routing(golden, prompt, keeper, 1e-5);
}

class Golden : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Golden, LogitsRoutingAndGreedyTokensAgree) {
  const auto& [name, isa] = GetParam();
  const GoldenCase golden(name);
  ChoiceKeeper keeper;
  auto loaded = LoadedEngine::create(golden.model_path(), {.n_threads = 2, .isa = isa},
                                     {.context_length = kContext,
                                      .kv_type = KvType::kF32,
                                      .activations = ActivationPrecision::kF32,
                                      .hooks = {.observer = &keeper}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const auto& prompt : golden.json["prompts"]) {
    SCOPED_TRACE(prompt["n_tokens"].dump() + " tokens");
    check_prompt(golden, prompt, *loaded, keeper);
  }
}

TEST_P(Golden, EightBitActivationsStayWithinTheirToleranceAndChooseTheSameExperts) {
  const auto& [name, isa] = GetParam();
  const GoldenCase golden(name);
  if (!golden.is_quantised()) GTEST_SKIP() << "only quantised weights take 8-bit activations";
  ChoiceKeeper keeper;
  auto loaded = LoadedEngine::create(golden.model_path(), {.n_threads = 2, .isa = isa},
                                     {.context_length = kContext,
                                      .kv_type = KvType::kF32,
                                      .activations = ActivationPrecision::kQ8,
                                      .hooks = {.observer = &keeper}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const auto& prompt : golden.json["prompts"]) {
    SCOPED_TRACE(prompt["n_tokens"].dump() + " tokens");
    const auto expected = read_binary<float>(golden.folder + prompt["logits_deq"].get<std::string>());
    const Request request = greedy_with_logits(prompt["tokens"].get<std::vector<int32_t>>(), 0);
    const Answer answer = run_together(*loaded->engine, {request}).front();
    EXPECT_LE(relative_distance(answer.logits, expected), golden.json["tolerance"]["deq_q"].get<double>());
    // As for the logits: twice as far as llama.cpp's own.
    check_routing(golden, prompt, keeper, std::max(0.05, 2 * distance_of_native_weights(golden, prompt)));
  }
}

std::vector<std::string> isas() {
  const auto available = kernels::available_isas();
  return {available.begin(), available.end()};
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         testing::Combine(testing::ValuesIn(golden_cases()), testing::ValuesIn(isas())),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace soli
