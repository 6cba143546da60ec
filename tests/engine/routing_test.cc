// The experts of every token, as streams tell them: equal to what the router's seam shows, for tokens that
// were computed and for those that came from the prefix cache.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "observe/activation_recorder.h"
#include "support/loaded_engine.h"

namespace soli {
namespace {

using Kind = StreamEvent::Kind;

/// What a stream told of routing.
struct Told {
  std::map<int64_t, TokenRouting> prompt;     // by the position of the event
  std::map<int64_t, TokenRouting> generated;  // the same
  std::vector<double> logprobs;               // of the prompt's tokens
  RequestSummary summary;
  size_t n_held_most = 0;  // events that the stream held at once
  bool ended = false;
};

void read(Stream& stream, Told& told) {
  size_t n_held = 0;
  while (auto event = stream.try_pop()) {
    ++n_held;
    if (event->kind == Kind::kFinished) {
      told.summary = event->summary;
      told.ended = true;
      break;
    }
    if (event->logprob && event->kind == Kind::kPromptToken) told.logprobs.push_back(*event->logprob);
    if (!event->routing) continue;
    auto& place = event->kind == Kind::kPromptToken ? told.prompt : told.generated;
    if (event->kind == Kind::kPromptToken) {
      EXPECT_TRUE(told.generated.empty()) << "the prompt comes first";
      EXPECT_EQ(event->position, static_cast<int64_t>(told.prompt.size())) << "in order";
    }
    EXPECT_TRUE(place.emplace(event->position, *std::move(event->routing)).second) << "told twice";
  }
  told.n_held_most = std::max(told.n_held_most, n_held);
}

/// Runs a request; reads only when the engine has nothing left to do.
Told run_lazily(Engine& engine, const Request& request, RequestId* id = nullptr) {
  const auto stream = engine.submit(request).value();
  if (id != nullptr) *id = stream->id();
  Told told;
  while (!told.ended) {
    while (engine.step()) {
    }
    read(*stream, told);
  }
  return told;
}

Request routed(std::vector<int32_t> prompt, int64_t max_new_tokens) {
  Request request = {.prompt = std::move(prompt), .max_new_tokens = max_new_tokens};
  request.sampling.temperature = 0;
  request.want_routing = true;
  return request;
}

void expect_equal(const TokenRouting& routing, int64_t position, const RequestChoices& recorded) {
  EXPECT_EQ(routing.position, position);
  int64_t layer = 0;
  for (const RecordedRoute& route : recorded.routes) {
    if (route.position != position) continue;
    ASSERT_LT(layer, routing.n_layers());
    const auto calls = recorded.calls_of(route);
    const auto ids = routing.ids_of(layer);
    const auto weights = routing.weights_of(layer);
    ASSERT_EQ(ids.size(), calls.size());
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(ids[i], calls[i].expert);
      EXPECT_EQ(weights[i], calls[i].weight);
    }
    ++layer;
  }
  EXPECT_EQ(layer, routing.n_layers()) << "every layer with experts, at position " << position;
}

bool operator==(const TokenRouting& a, const TokenRouting& b) {
  return a.position == b.position && a.layer_begin == b.layer_begin && a.ids == b.ids &&
         a.weights == b.weights;
}

void expect_same(const Told& a, const Told& b) {
  ASSERT_EQ(a.prompt.size(), b.prompt.size());
  ASSERT_EQ(a.generated.size(), b.generated.size());
  for (const auto& [position, routing] : a.prompt) EXPECT_TRUE(routing == b.prompt.at(position)) << position;
  for (const auto& [position, routing] : a.generated)
    EXPECT_TRUE(routing == b.generated.at(position)) << position;
}

TEST(Routing, IsWhatTheSeamShowsColdAndWarmChunkedOrNot) {
  for (const char* model : {"olmoe", "deepseek2-v3", "qwen3moe"}) {  // the second has layers without experts
    for (const int64_t chunk_rows : {512, 7}) {
      SCOPED_TRACE(fmt::format("{} in chunks of {}", model, chunk_rows));
      ActivationRecorder recorder(1 << 16);
      auto loaded = LoadedEngine::create(GoldenCase(model).model_path(), {.n_threads = 1},
                                         {.context_length = 256,
                                          .chunk_rows = chunk_rows,
                                          .max_logit_rows = 100,
                                          .hooks = {.observer = &recorder},
                                          .prefix_cache = true,
                                          .keep_routing = true});
      ASSERT_TRUE(loaded) << loaded.error().message;
      Engine& engine = *loaded->engine;
      const Request request = routed(random_prompt(3, 150, loaded->model->spec().vocab_size), 20);
      RequestId id = 0;
      const Told cold = run_lazily(engine, request, &id);
      const RequestChoices recorded = recorder.choices_of(id);
      ASSERT_EQ(cold.prompt.size(), 150U);
      ASSERT_EQ(cold.generated.size(), 20U);
      for (const auto& [position, routing] : cold.prompt) expect_equal(routing, position, recorded);
      for (const auto& [position, routing] : cold.generated) expect_equal(routing, position - 1, recorded);
      EXPECT_EQ(cold.summary.n_cached, 0);
      const size_t most = 2 * Stream::kCapacityEvents + 1;
      EXPECT_LE(cold.n_held_most, most) << "a stream holds no more, however long the prompt";

      const Told warm = run_lazily(engine, request);
      EXPECT_EQ(warm.summary.n_cached, 128);
      expect_same(cold, warm);
      EXPECT_LE(warm.n_held_most, most);
      Request beginning = request;
      beginning.prompt.resize(50);
      const Told part = run_lazily(engine, beginning);
      EXPECT_EQ(part.summary.n_cached, 49) << "of a page that was copied";
      ASSERT_EQ(part.prompt.size(), 50U);
      for (const auto& [position, routing] : part.prompt)
        EXPECT_TRUE(routing == cold.prompt.at(position)) << position;
      Request with_logprobs = request;
      with_logprobs.prompt_detail = Detail::kLogprob;
      const Told detailed = run_lazily(engine, with_logprobs);
      EXPECT_EQ(detailed.logprobs.size(), 149U);
      expect_same(cold, detailed);
    }
  }
}

TEST(Routing, OfACachedPromptIsToldWithoutAnythingToCompute) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 1},
                                     {.context_length = 160, .prefix_cache = true, .keep_routing = true});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Request request = routed(random_prompt(1, 129, loaded->model->spec().vocab_size), 2);
  run_lazily(*loaded->engine, request);
  // All but the last token come from the cache, and more events than the stream has room for.
  const auto stream = loaded->engine->submit(request).value();
  loaded->engine->step();
  EXPECT_TRUE(stream->is_full()) << "else nobody would wake the engine";
}

TEST(Routing, SurvivesPreemptionAndNeighboursWithAnotherK) {
  const EngineOptions options = {.context_length = 256,
                                 .chunk_rows = 40,
                                 .max_experts_per_token = 5,
                                 .prefix_cache = true,
                                 .keep_routing = true};
  const std::string path = GoldenCase("olmoe").model_path();
  auto roomy = LoadedEngine::create(path, {.n_threads = 1}, options);
  EngineOptions few_pages = options;
  few_pages.max_kv_pages = 4;
  auto tight = LoadedEngine::create(path, {.n_threads = 1}, few_pages);
  ASSERT_TRUE(roomy && tight);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 4; ++i) {
    requests.push_back(routed(random_prompt(i / 2, 100, roomy->model->spec().vocab_size), 60));
    requests.back().policy.experts_per_token = i == 1 ? 5 : 0;
    requests.back().policy.relative_threshold = i == 3 ? 0.6 : 0;
  }
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& request : requests) streams.push_back(tight->engine->submit(request).value());
  std::vector<Told> told(4);
  const auto all_ended = [&] {
    return std::all_of(told.begin(), told.end(), [](const Told& t) { return t.ended; });
  };
  while (!all_ended()) {
    tight->engine->step();
    for (size_t i = 0; i < 4; ++i) {
      if (!told[i].ended) read(*streams[i], told[i]);
    }
  }
  EXPECT_GT(tight->engine->counters().n_preempted, 0);
  bool is_ragged = false;
  for (size_t i = 0; i < 4; ++i) {
    expect_same(run_lazily(*roomy->engine, requests[i]), told[i]);
    for (const auto& [position, routing] : told[i].prompt) {
      if (i == 1) {
        EXPECT_EQ(routing.ids_of(0).size(), 5U);
      }
      is_ragged = is_ragged || (i == 3 && routing.ids_of(0).size() < routing.ids_of(1).size());
    }
  }
  EXPECT_TRUE(is_ragged);
}

TEST(Routing, IsChargedWithThePagesAndOnlyWhereItIsKept) {
  const std::string path = GoldenCase("olmoe").model_path();
  const EngineOptions keeps = {.context_length = 256, .keep_routing = true};
  auto loaded = LoadedEngine::create(path, {.n_threads = 1}, keeps);
  ASSERT_TRUE(loaded);
  run_lazily(*loaded->engine, routed(random_prompt(1, 100, 280), 2));
  const auto used = loaded->runtime->budget().used_by_name();
  const KvPagePool::Shape shape = keeps.page_shape(loaded->model->spec());
  EXPECT_EQ(used.at("kv pages") + used.at("kept routing"), 2 * KvPagePool::charged_bytes(shape));
  EXPECT_GT(shape.routing_bytes, 0);

  auto plain = LoadedEngine::create(path, {.n_threads = 1}, {.context_length = 256});
  const auto refused = plain->engine->submit(routed({1, 2}, 1));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("routing"));
  EXPECT_EQ(EngineOptions{}.page_shape(plain->model->spec()).routing_bytes, 0);
  auto dense = LoadedEngine::create(GoldenCase("llama-dense").model_path(), {.n_threads = 1}, keeps);
  ASSERT_TRUE(dense);
  EXPECT_THAT(dense->engine->submit(routed({1, 2}, 1)).error().message, testing::HasSubstr("dense"));
  Answer answer;
  const auto stream = dense->engine->submit({.prompt = {1, 2}, .max_new_tokens = 2}).value();
  while (!drain(*stream, answer)) dense->engine->step();
  EXPECT_EQ(answer.tokens.size(), 2U);
}

}  // namespace
}  // namespace soli
