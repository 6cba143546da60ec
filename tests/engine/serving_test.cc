// What a server leans on: an engine's thread that sleeps and is woken, counters that add up, and an end for
// everybody.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/loaded_engine.h"

namespace soli {
namespace {

using std::chrono::milliseconds;

LoadedEngine load_olmoe_to_serve(const EngineOptions& options = {}) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 2}, options);
  EXPECT_TRUE(loaded);
  return std::move(*loaded);
}

/// Everything that a stream still holds, its end last.
std::vector<StreamEvent> take_all(Stream& stream) {
  std::vector<StreamEvent> events;
  while (auto event = stream.try_pop()) events.push_back(*std::move(event));
  return events;
}

TEST(Serving, TheEngineSleepsUntilThereIsWork) {
  LoadedEngine loaded = load_olmoe_to_serve({.context_length = 256});
  Engine& engine = *loaded.engine;
  EXPECT_FALSE(engine.step());
  EXPECT_FALSE(engine.wait_for_work(milliseconds(0)));
  const auto stream = engine.submit({.prompt = {1, 2}, .max_new_tokens = 200}).value();
  EXPECT_TRUE(engine.wait_for_work(milliseconds(0)));
  while (engine.step()) {
  }
  ASSERT_TRUE(stream->is_full());
  EXPECT_FALSE(engine.wait_for_work(milliseconds(0)));
  while (stream->is_full()) stream->pop();
  EXPECT_TRUE(engine.wait_for_work(milliseconds(0))) << "a reader made room";
  while (engine.step()) {
  }
  EXPECT_TRUE(stream->is_full());
  stream->close();
  EXPECT_TRUE(engine.wait_for_work(milliseconds(0))) << "a client left";
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(take_all(*stream).back().reason, FinishReason::kCancelled);
  engine.wake();
  EXPECT_TRUE(engine.wait_for_work(Wakeup::kLongestWait));
}

TEST(Serving, AnEngineOnAThreadOfItsOwnServesClientsThatAreOnlyCalled) {
  LoadedEngine loaded = load_olmoe_to_serve({.context_length = 256, .max_sequences = 3});
  Engine& engine = *loaded.engine;
  std::atomic<bool> stopping = false;
  std::thread stepping([&] {
    while (!stopping) {
      if (!engine.step()) engine.wait_for_work(Wakeup::kLongestWait);
    }
  });
  constexpr int kClients = 6;
  std::atomic<int> n_finished = 0;
  std::atomic<int> n_tokens = 0;
  Wakeup done;
  const auto on_ready = [&](Stream& stream) {
    while (auto event = stream.try_pop()) {
      n_tokens += event->kind == StreamEvent::Kind::kToken ? 1 : 0;
      if (event->kind == StreamEvent::Kind::kFinished && ++n_finished == kClients) done.signal();
    }
  };
  for (int i = 0; i < kClients; ++i) {
    const auto stream = engine.submit({.prompt = {1, 2, i}, .max_new_tokens = 100}).value();
    stream->set_on_ready([&, stream] { on_ready(*stream); });
  }
  EXPECT_TRUE(done.wait_for(std::chrono::minutes(1)));
  EXPECT_EQ(n_tokens, kClients * 100);
  stopping = true;
  engine.wake();
  stepping.join();
}

TEST(Serving, ThreadsThatShareAPromptAndComeAndGo) {
  LoadedEngine loaded = load_olmoe_to_serve({.context_length = 256,
                                             .max_sequences = 4,
                                             .chunk_rows = 64,
                                             .max_kv_pages = 9,
                                             .prefix_cache = true,
                                             .keep_routing = true,
                                             .max_slowdown = 2.5});
  Engine& engine = *loaded.engine;
  std::atomic<bool> stopping = false;
  std::thread stepping([&] {
    while (!stopping) {
      if (!engine.step()) engine.wait_for_work(Wakeup::kLongestWait);
    }
  });
  const auto prompt = random_prompt(1, 100, loaded.model->spec().vocab_size);
  const auto run = [&](uint32_t tenant, int round) {
    Request request = {.prompt = prompt, .max_new_tokens = 40, .sampling = {.temperature = 0}};
    request.want_routing = round % 2 == 0;
    request.tenant = tenant;
    const auto stream = engine.submit(std::move(request)).value();
    std::vector<int32_t> tokens;
    for (StreamEvent event = stream->pop(); event.kind != StreamEvent::Kind::kFinished;
         event = stream->pop()) {
      if (event.kind == StreamEvent::Kind::kToken) tokens.push_back(event.token);
      if (round == 3 && tokens.size() == 7) stream->close();
    }
    tokens.resize(std::min<size_t>(tokens.size(), 7));
    return tokens;
  };
  const std::vector<int32_t> expected = run(9, 0);
  std::vector<std::thread> clients;
  for (uint32_t i = 0; i < 5; ++i) {
    clients.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) EXPECT_EQ(run(i, round), expected);
    });
  }
  int64_t n_before = 0;
  while (engine.counters().n_submitted < 26) {
    const EngineCounters now = engine.counters();
    int64_t n = now.n_running + now.n_waiting;
    for (const int64_t finished : now.n_finished) n += finished;
    EXPECT_EQ(n, now.n_submitted);
    EXPECT_GE(n, n_before);
    n_before = n;
    std::this_thread::sleep_for(milliseconds(1));
  }
  for (std::thread& client : clients) client.join();
  stopping = true;
  engine.wake();
  stepping.join();
  engine.step();
  const EngineCounters counters = engine.counters();
  EXPECT_EQ(counters.n_running + counters.n_waiting, 0);
  EXPECT_EQ(counters.kv_pages_in_use, counters.prefix_cache_pages);
  EXPECT_GT(counters.cached_prompt_tokens, 0);
}

TEST(Serving, ASubmitFromWithinACallbackIsServed) {
  LoadedEngine loaded = load_olmoe_to_serve();
  Engine& engine = *loaded.engine;
  std::shared_ptr<Stream> second;
  const auto first = engine.submit({.prompt = {1}, .max_new_tokens = 1}).value();
  first->set_on_ready([&] {
    if (second == nullptr) second = engine.submit({.prompt = {2}, .max_new_tokens = 1}).value();
  });
  engine.cancel_all();
  engine.step();
  EXPECT_EQ(take_all(*first).back().reason, FinishReason::kCancelled);
  ASSERT_NE(second, nullptr);
  while (engine.step()) {
  }
  EXPECT_EQ(take_all(*second).back().reason, FinishReason::kMaxNewTokens) << "it came later";
}

TEST(Serving, CountersAddUpAndStandStill) {
  LoadedEngine loaded = load_olmoe_to_serve({.context_length = 64, .max_sequences = 2, .max_queued = 3});
  Engine& engine = *loaded.engine;
  std::vector<std::shared_ptr<Stream>> streams;
  for (const int64_t n : {4, 5}) {
    streams.push_back(engine.submit({.prompt = {1, 2, 3}, .max_new_tokens = n}).value());
    engine.step();
  }
  for (int i = 0; i < 3; ++i) streams.push_back(engine.submit({.prompt = {9, 8}}).value());
  EXPECT_FALSE(engine.submit({.prompt = {1}}));
  EngineCounters now = engine.counters();
  EXPECT_EQ(now.n_submitted, 5);
  EXPECT_EQ(now.n_refused, 1);
  EXPECT_EQ(now.n_running, 2);
  EXPECT_EQ(now.n_waiting, 3);
  EXPECT_EQ(now.kv_pages_in_use, 2);
  streams[2]->close();
  while (engine.counters().finished(FinishReason::kMaxNewTokens) < 2) ASSERT_TRUE(engine.step());
  engine.step();
  engine.cancel_all();
  EXPECT_FALSE(engine.step());

  int64_t n_prompt = 0;
  int64_t n_generated = 0;
  for (const auto& stream : streams) {
    const std::vector<StreamEvent> events = take_all(*stream);
    const RequestSummary& summary = events.back().summary;
    EXPECT_EQ(summary.n_generated, static_cast<int64_t>(events.size()) - 1);
    if (summary.first_computed) n_prompt += summary.n_prompt;
    n_generated += summary.n_generated;
  }
  now = engine.counters();
  EXPECT_EQ(now.finished(FinishReason::kMaxNewTokens), 2);
  EXPECT_EQ(now.finished(FinishReason::kCancelled), 3);
  EXPECT_EQ(now.n_running + now.n_waiting, 0);
  EXPECT_EQ(now.prompt_tokens, n_prompt);
  EXPECT_EQ(now.prompt_rows, n_prompt);
  EXPECT_EQ(now.generated_tokens, n_generated);
  EXPECT_EQ(now.kv_pages_in_use, 0);
  EXPECT_EQ(now.kv_pages, 2);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.counters().steps, now.steps) << "idle";
}

TEST(Serving, TheSummaryTellsWhereTheTimeWent) {
  EngineTime now = {};
  const EngineClock tick = [&] { return now += std::chrono::seconds(1); };
  LoadedEngine loaded = load_olmoe_to_serve({.max_sequences = 1, .clock = &tick});
  const auto first = loaded.engine->submit({.prompt = {1, 2}, .max_new_tokens = 3}).value();
  const auto second = loaded.engine->submit({.prompt = {1, 2}, .max_new_tokens = 2}).value();
  const auto never = loaded.engine->submit({.prompt = {1, 2}}).value();
  never->close();
  while (loaded.engine->step()) {
  }
  const RequestSummary a = take_all(*first).back().summary;
  const RequestSummary b = take_all(*second).back().summary;
  const RequestSummary c = take_all(*never).back().summary;
  EXPECT_LT(a.submitted, *a.first_computed);
  EXPECT_LT(*a.first_computed, *a.first_token);
  EXPECT_LT(*a.first_token, a.finished);
  EXPECT_LT(a.finished, *b.first_computed) << "it waited for its turn";
  EXPECT_FALSE(c.first_computed);
  EXPECT_FALSE(c.first_token);
  EXPECT_LT(c.submitted, c.finished);
  EXPECT_EQ(c.n_prompt, 2);
}

}  // namespace
}  // namespace soli
