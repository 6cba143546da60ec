// Steered requests: every control changes something, and none of it depends on how the sequence was computed:
// in chunks, token by token, beside others, after its pages were taken away, with pages of others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/loaded_engine.h"

namespace soli {
namespace {

using testing::HasSubstr;

constexpr const char* kModels[] = {"olmoe", "mixtral", "deepseek2-v3", "gpt-oss"};

/// One of each control, those with state, and all together.
std::map<std::string, RoutingPolicy> steered_policies() {
  return {
      {"k of a layer", {.layers = {{.first_layer = 1, .last_layer = 1, .experts_per_token = 1}}}},
      {"cumulative probability", {.cumulative_probability = 0.3}},
      {"temperature", {.temperature = 0.5}},
      {"mask", {.mask = {0, 1}}},
      {"force", {.force = {2}}},
      {"bias", {.bias = {{1, 1.5}, {3, -1.5}}}},
      {"noise", {.noise = 0.7, .noise_seed = 3}},
      {"input clamp", {.input_clamp = 0.4}},
      {"smoothing", {.smoothing = 0.4}},
      {"context gate", {.context_gate = 3, .context_gate_tokens = 5}},
      {"capacity", {.capacity_factor = 0.6, .capacity_window = 24}},
      {"capacity, dropped", {.capacity_factor = 0.6, .capacity_window = 24, .overflow = Overflow::kDrop}},
      {"all",
       {.cumulative_probability = 0.95,
        .temperature = 0.9,
        .mask = {0},
        .force = {2},
        .bias = {{1, 0.5}},
        .noise = 0.3,
        .smoothing = 0.2,
        .context_gate = 1,
        .input_clamp = 2,
        .capacity_factor = 1.1,
        .layers = {{.first_layer = 1, .last_layer = 1, .smoothing = 0.6}}}},
  };
}

LoadedEngine load_steerable(const std::string& model, EngineOptions options,
                            int64_t memory_bytes = Budget::kUnlimited) {
  options.keep_steering_state = true;
  auto loaded = LoadedEngine::create(GoldenCase(model).model_path(),
                                     {.n_threads = 2, .memory_bytes = memory_bytes}, options);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return std::move(*loaded);
}

Request steered(const LoadedEngine& loaded, const RoutingPolicy& policy, uint64_t seed = 7, size_t n = 90) {
  Request request = greedy_with_logits(random_prompt(seed, n, loaded.model->spec().vocab_size), 8);
  request.policy = policy;
  return request;
}

TEST(Steering, EveryControlChangesTheAnswerAndNoneMovesItWithTheBatch) {
  for (const char* model : kModels) {
    LoadedEngine loaded = load_steerable(model, {.context_length = 256});
    std::vector<Request> requests = {steered(loaded, {})};
    for (const auto& [name, policy] : steered_policies()) requests.push_back(steered(loaded, policy));
    std::vector<Answer> alone;
    for (const Request& request : requests) alone.push_back(run_together(*loaded.engine, {request}).front());
    const auto together = run_together(*loaded.engine, requests);
    ASSERT_TRUE(loaded.restart({.context_length = 256, .chunk_rows = 7, .keep_steering_state = true}));
    const auto chunked = run_together(*loaded.engine, requests);
    ASSERT_TRUE(loaded.restart({.context_length = 256, .chunk_rows = 1, .keep_steering_state = true}));
    size_t i = 0;
    const auto check = [&](const std::string& name) {
      SCOPED_TRACE(std::string(model) + ", " + name);
      EXPECT_TRUE(same_bits(alone[i], together[i])) << "in one batch with the others";
      EXPECT_TRUE(same_bits(alone[i], chunked[i])) << "in chunks";
      EXPECT_TRUE(same_bits(alone[i], run_together(*loaded.engine, {requests[i]}).front())) << "by token";
      EXPECT_EQ(same_bits(alone[0], alone[i]), i == 0);
      EXPECT_EQ(alone[i].reason, FinishReason::kMaxNewTokens);
      ++i;
    };
    check("exact");
    for (const auto& [name, policy] : steered_policies()) check(name);
  }
}

TEST(Steering, NothingAndTheModelsOwnNumberChangeNoBit) {
  for (const char* model : kModels) {
    SCOPED_TRACE(model);
    auto plain = LoadedEngine::create(GoldenCase(model).model_path(), {.n_threads = 2});
    ASSERT_TRUE(plain);
    const Answer expected = run_together(*plain->engine, {steered(*plain, {})}).front();
    LoadedEngine loaded = load_steerable(model, {});
    const int64_t k = loaded.model->spec().router.experts_per_token;
    const int64_t last_layer = loaded.model->spec().n_layers - 1;
    for (const RoutingPolicy& policy :
         {RoutingPolicy{}, RoutingPolicy{.experts_per_token = k}, RoutingPolicy{.noise_seed = 5},
          RoutingPolicy{.capacity_factor = 1000}, RoutingPolicy{.input_clamp = 1e9},
          RoutingPolicy{.layers = {{.first_layer = 0, .last_layer = last_layer, .experts_per_token = k}}}}) {
      EXPECT_TRUE(same_bits(expected, run_together(*loaded.engine, {steered(loaded, policy)}).front()))
          << policy.hash();
    }
  }
}

TEST(Steering, WhoLosesItsPagesComesToTheSameBits) {
  for (const char* model : {"olmoe", "deepseek2-v3"}) {
    const EngineOptions options = {.context_length = 256, .chunk_rows = 32, .max_logit_rows = 32};
    LoadedEngine roomy = load_steerable(model, options);
    std::vector<Request> requests;
    for (const auto& [name, policy] : steered_policies()) {
      if (!policy.is_stateful()) continue;
      // Four pages each: two run until none of them gets another one.
      requests.push_back(steered(roomy, policy, requests.size(), 90 + 8 * requests.size()));
      requests.back().max_new_tokens = 120;
    }
    const int64_t fixed_bytes = roomy.runtime->budget().used_bytes();
    const auto expected = run_together(*roomy.engine, requests);
    const int64_t page_bytes =
        (roomy.runtime->budget().used_bytes() - fixed_bytes) / roomy.engine->kv_pages().n_pages();
    LoadedEngine tight = load_steerable(model, options, fixed_bytes + 5 * page_bytes);
    const auto answers = run_together(*tight.engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_TRUE(same_bits(expected[i], answers[i])) << i;
    EXPECT_GT(tight.engine->counters().n_preempted, 0);
    EXPECT_GT(tight.engine->counters().recomputed_rows, 0);
  }
}

TEST(Steering, AWarmCacheGoesOnFromTheStateOfItsPages) {
  for (const char* model : {"olmoe", "mixtral"}) {
    for (const auto& named : steered_policies()) {
      const RoutingPolicy& policy = named.second;
      SCOPED_TRACE(std::string(model) + ", " + named.first);
      LoadedEngine loaded =
          load_steerable(model, {.context_length = 256, .chunk_rows = 37, .prefix_cache = true});
      const auto with = [&](std::vector<int32_t> prompt, bool use_cache) {
        Request request = steered(loaded, policy);
        request.prompt = std::move(prompt);
        request.prompt_detail = Detail::kNone;
        request.use_prefix_cache = use_cache;
        return request;
      };
      const auto prompt = random_prompt(7, 150, loaded.model->spec().vocab_size);
      run_together(*loaded.engine, {with(prompt, true)});
      auto changed = prompt;
      changed[100] = changed[100] == 3 ? 4 : 3;  // in the middle of the second page
      auto longer = prompt;
      longer.resize(200, 5);
      for (const auto& next : {prompt, changed, longer}) {
        const Answer expected = run_together(*loaded.engine, {with(next, false)}).front();
        const int64_t n_before = loaded.engine->counters().cached_prompt_tokens;
        EXPECT_TRUE(same_bits(expected, run_together(*loaded.engine, {with(next, true)}).front()));
        EXPECT_GE(loaded.engine->counters().cached_prompt_tokens - n_before, 100);
      }
      Request other = with(prompt, true);
      other.policy.noise_seed = 77;
      const int64_t n_before = loaded.engine->counters().cached_prompt_tokens;
      run_together(*loaded.engine, {other});
      EXPECT_EQ(loaded.engine->counters().cached_prompt_tokens, n_before) << "another policy shares nothing";
    }
  }
}

TEST(Steering, OverflowIsCounted) {
  LoadedEngine loaded = load_steerable("olmoe", {.context_length = 256});
  run_together(*loaded.engine, {steered(loaded, {.smoothing = 0.5})});
  EXPECT_EQ(loaded.engine->counters().overflow.n_moved, 0);
  run_together(*loaded.engine, {steered(loaded, {.capacity_factor = 0.5})});
  EXPECT_GT(loaded.engine->counters().overflow.n_moved, 0);
  run_together(*loaded.engine, {steered(loaded, {.capacity_factor = 0.5, .overflow = Overflow::kDrop})});
  EXPECT_GT(loaded.engine->counters().overflow.n_dropped, 0);
}

TEST(Steering, APolicyWithStateNeedsAnEngineThatKeepsIt) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path());
  ASSERT_TRUE(loaded);
  for (const RoutingPolicy& policy : {RoutingPolicy{.smoothing = 0.5}, RoutingPolicy{.context_gate = 1},
                                      RoutingPolicy{.capacity_factor = 1}}) {
    const auto stream = loaded->engine->submit(steered(*loaded, policy));
    ASSERT_FALSE(stream);
    EXPECT_THAT(stream.error().message, HasSubstr("look at the tokens before"));
  }
  EXPECT_TRUE(loaded->engine->submit(steered(*loaded, {.temperature = 2})));
  const auto wrong = loaded->engine->submit(steered(*loaded, {.mask = {9999}}));
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("mask: there is no expert 9999"));
}

}  // namespace
}  // namespace soli
