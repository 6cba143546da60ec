// Random walks over model shapes: the engine with F32 weights, keys, values and activations against the
// reference, in one batch and in chunks beside other requests.
//
// The shapes are the same in every run. RC_PARAMS gives others, as in RC_PARAMS="seed=7 max_success=1000";
// after a failure, rapidcheck prints the value that leads to the same shape.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>

#include "reference/compare.h"
#include "reference/forward.h"
#include "reference/walk_file.h"
#include "reference/walk_shape.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli::reference {
namespace {

constexpr double kTolerance = 2e-5;

/// Keeps what the first request of an engine chose.
class FirstRequest : public RouterObserver {
 public:
  void on_route(const RouterView& view, const soli::Choice& choice) override;
  Choices choices;
};

void FirstRequest::on_route(const RouterView& view, const soli::Choice& choice) {
  for (size_t row = 0; row < view.rows.size(); ++row) {
    if (view.rows[row].request != 1) continue;
    auto& kept = choices[{view.layer, view.rows[row].position}];
    const auto ids = choice.ids_of(static_cast<int64_t>(row));
    const auto weights = choice.weights_of(static_cast<int64_t>(row));
    for (size_t i = 0; i < ids.size(); ++i) kept[ids[i]] = weights[i];
  }
}

struct EngineRun {
  Answer answer;
  Choices choices;
};

/// The first of some requests that run together.
EngineRun run_first(LoadedEngine& loaded, EngineOptions options, const std::vector<Request>& requests) {
  FirstRequest keeper;
  options.hooks.observer = &keeper;
  const Status started = loaded.restart(options);
  if (!started) RC_FAIL(started.error().message);
  Answer answer = run_together(*loaded.engine, requests).front();
  if (answer.error) RC_FAIL(answer.error->message);
  return {std::move(answer), std::move(keeper.choices)};
}

std::string place_text(const std::pair<int64_t, int64_t>& place) {
  return "layer " + std::to_string(place.first) + " position " + std::to_string(place.second);
}

void check_choices(const Choices& ours, const Choices& expected) {
  RC_ASSERT(ours.size() == expected.size());
  for (const auto& [place, choice] : expected) {
    double total = 0;
    for (const auto& [id, weight] : choice) total += weight;
    for (const auto& [id, weight] : choice) {
      const auto at = ours.at(place).find(id);
      if (at == ours.at(place).end())
        RC_FAIL(place_text(place) + ": the engine did not choose expert " + std::to_string(id));
      if (std::abs(at->second - weight) > kTolerance * total)
        RC_FAIL(place_text(place) + ": the weight of expert " + std::to_string(id) + " is " +
                std::to_string(at->second) + ", not " + std::to_string(weight));
    }
    RC_ASSERT(ours.at(place).size() == choice.size());
  }
}

/// Of two experts with one score, the lower id comes first.
void check_twins(const Choices& choices) {
  for (const auto& [place, choice] : choices) {
    for (const auto& [id, weight] : choice) {
      if (id % 2 == 1 && !choice.count(id - 1))
        RC_FAIL(place_text(place) + ": expert " + std::to_string(id) + " was chosen before its twin");
    }
  }
}

void check(const WalkShape& shape) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.gguf";
  write_model(shape, path);
  const auto isas = kernels::available_isas();
  EngineOptions options = {.context_length = shape.context,
                           .chunk_rows = shape.n_tokens,
                           .kv_type = KvType::kF32,
                           .activations = ActivationPrecision::kF32};
  auto loaded = LoadedEngine::create(
      path, {.n_threads = shape.n_threads, .isa = isas[static_cast<size_t>(shape.isa) % isas.size()]},
      options);
  if (!loaded) RC_FAIL(loaded.error().message);

  const auto prompt = [&](uint64_t number, int64_t n) {
    return greedy_with_logits(random_prompt(shape.seed + number, static_cast<size_t>(n), shape.vocab), 0);
  };
  const Request request = prompt(0, shape.n_tokens);
  const EngineRun whole = run_first(*loaded, options, {request});
  options.chunk_rows = shape.chunk_rows;
  const EngineRun chunks = run_first(*loaded, options, {request, prompt(1, 3), prompt(2, shape.n_tokens)});
  RC_ASSERT(same_bits(whole.answer, chunks.answer));
  RC_ASSERT(whole.choices == chunks.choices);

  if (shape.twins) check_twins(whole.choices);
  const Output expected = forward(TensorFile(path), request.prompt, shape.context, whole.choices);
  check_choices(whole.choices, expected.choices);
  const double distance = relative_distance(whole.answer.logits, expected.logits);
  if (!(distance <= kTolerance)) RC_FAIL("relative distance of the logits: " + std::to_string(distance));
}

class Walk : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { ::setenv("RC_PARAMS", "seed=1 max_success=30", 0); }
};

TEST_P(Walk, EngineAndReferenceAgree) {
  const std::string family = GetParam();
  EXPECT_TRUE(rc::check(family, [&] { check(*shapes_of(family).as("shape")); }));
}

INSTANTIATE_TEST_SUITE_P(Families, Walk,
                         testing::Values("llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "olmoe",
                                         "deepseek2", "gpt-oss", "glm4moe", "phimoe", "dots1", "minimax-m2",
                                         "ernie4_5-moe", "hunyuan-moe", "bailingmoe2", "granitemoe",
                                         "qwen3vlmoe"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == '-'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace soli::reference
