// Recorded choices that are forced give the bits of the run that made them: in chunks, in batches, in decode.

#include <gtest/gtest.h>

#include <map>

#include "model/replay_router.h"
#include "support/loaded_engine.h"

namespace soli {
namespace {

/// Keeps what every row chose.
class ReplayKeeper final : public RouterObserver {
 public:
  explicit ReplayKeeper(const ModelSpec& spec) : spec_(spec) {}

  void on_route(const RouterView& view, const Choice& choice) override {
    for (int64_t row = 0; row < choice.n_rows(); ++row) {
      const BatchRow& of = view.rows[static_cast<size_t>(row)];
      Row& kept = rows_[{of.request, of.position}];
      const auto ids = choice.ids_of(row);
      const auto weights = choice.weights_of(row);
      const auto unused = static_cast<size_t>(spec_.router.experts_per_token) - ids.size();
      kept.ids.insert(kept.ids.end(), ids.begin(), ids.end());
      kept.ids.insert(kept.ids.end(), unused, int16_t{-1});
      kept.weights.insert(kept.weights.end(), weights.begin(), weights.end());
      kept.weights.insert(kept.weights.end(), unused, 0.0F);
    }
  }

  /// Of one request, with expert `e` called `moved` higher, modulo their number.
  RecordedChoices choices_of(RequestId request, int16_t moved = 0) const {
    RecordedChoices choices(spec_.n_moe_layers(), spec_.router.experts_per_token);
    for (const auto& [key, row] : rows_) {
      if (key.first != request) continue;
      std::vector<int16_t> ids = row.ids;
      for (int16_t& id : ids) id = id < 0 ? id : static_cast<int16_t>((id + moved) % spec_.router.n_experts);
      choices.append(ids, row.weights);
    }
    return choices;
  }

 private:
  struct Row {
    std::vector<int16_t> ids;
    std::vector<float> weights;
  };
  const ModelSpec& spec_;
  std::map<std::pair<RequestId, int64_t>, Row> rows_;
};

struct Forced {
  std::vector<Answer> answers;
  ChoiceAgreement agreement;  // over all layers
};

/// Runs the requests again in a new engine, with those choices.
Forced run_forced(LoadedEngine& loaded, const std::vector<Request>& requests, const ReplayKeeper& keeper,
                  ReplayWeights weights, const EngineOptions& options, int16_t moved = 0) {
  ReplayRouter router(loaded.model->spec(), true, weights);
  for (size_t i = 0; i < requests.size(); ++i) router.add(i + 1, keeper.choices_of(i + 1, moved));
  EngineOptions with_replay = options;
  with_replay.hooks.control = &router;
  EXPECT_TRUE(loaded.restart(with_replay));
  Forced forced = {run_together(*loaded.engine, requests), {}};
  for (const ChoiceAgreement& layer : router.agreement()) forced.agreement += layer;
  return forced;
}

class ReplayOfGolden : public testing::TestWithParam<const char*> {};

TEST_P(ReplayOfGolden, GivesTheSameBits) {
  auto loaded = LoadedEngine::create(GoldenCase(GetParam()).model_path(), {.n_threads = 2});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const ModelSpec& spec = loaded->model->spec();
  const std::vector<Request> requests = eight_requests(spec.vocab_size);
  ReplayKeeper keeper(spec);
  ASSERT_TRUE(
      loaded->restart({.context_length = 128, .max_logit_rows = 512, .hooks = {.observer = &keeper}}));
  const std::vector<Answer> expected = run_together(*loaded->engine, requests);
  for (const int64_t chunk_rows : {5, 64, 512}) {
    for (const ReplayWeights weights : {ReplayWeights::kRecorded, ReplayWeights::kRouter}) {
      const Forced forced = run_forced(*loaded, requests, keeper, weights,
                                       {.context_length = 128, .max_sequences = 3, .chunk_rows = chunk_rows});
      for (size_t i = 0; i < requests.size(); ++i)
        EXPECT_TRUE(same_bits(forced.answers[i], expected[i])) << "request " << i << ", " << chunk_rows;
      EXPECT_GT(forced.agreement.n_calls, 0);
      EXPECT_EQ(forced.agreement.n_same_calls, forced.agreement.n_calls);
      EXPECT_EQ(forced.agreement.n_same_choices, forced.agreement.n_choices);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReplayOfGolden,
                         testing::Values("mixtral", "olmoe", "deepseek2-v3", "gpt-oss"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Replay, OtherExpertsGiveOtherBitsAndAreCounted) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 1});
  ASSERT_TRUE(loaded);
  const ModelSpec& spec = loaded->model->spec();
  const std::vector<Request> requests = {greedy_with_logits(random_prompt(3, 20, spec.vocab_size), 0)};
  ReplayKeeper keeper(spec);
  const EngineOptions options = {.context_length = 64};
  ASSERT_TRUE(loaded->restart({.context_length = 64, .hooks = {.observer = &keeper}}));
  const std::vector<Answer> expected = run_together(*loaded->engine, requests);
  const Forced forced = run_forced(*loaded, requests, keeper, ReplayWeights::kRecorded, options, 1);
  EXPECT_FALSE(same_bits(forced.answers.front(), expected.front()));
  EXPECT_EQ(forced.agreement.n_choices, 20 * spec.n_moe_layers());
  EXPECT_EQ(forced.agreement.n_calls, 20 * spec.n_moe_layers() * spec.router.experts_per_token);
  EXPECT_LT(forced.agreement.n_same_calls, forced.agreement.n_calls);
  EXPECT_LT(forced.agreement.n_same_choices, forced.agreement.n_choices);
}

TEST(Replay, ARouterThatForcesNothingOnlyCounts) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 1});
  ASSERT_TRUE(loaded);
  const ModelSpec& spec = loaded->model->spec();
  const std::vector<Request> requests = {greedy_with_logits(random_prompt(3, 20, spec.vocab_size), 0)};
  ReplayKeeper keeper(spec);
  ASSERT_TRUE(loaded->restart({.context_length = 64, .hooks = {.observer = &keeper}}));
  const std::vector<Answer> expected = run_together(*loaded->engine, requests);
  ReplayRouter router(spec, false, ReplayWeights::kRecorded);
  router.add(1, keeper.choices_of(1, 1));
  ASSERT_TRUE(loaded->restart({.context_length = 64, .hooks = {.control = &router}}));
  EXPECT_TRUE(same_bits(run_together(*loaded->engine, requests).front(), expected.front()));
  EXPECT_LT(router.agreement().front().n_same_calls, router.agreement().front().n_calls);
}

}  // namespace
}  // namespace soli
