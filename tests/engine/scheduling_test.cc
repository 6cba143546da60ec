// Fairness, priority, pages and pace, through the engine: by steps and counts, with a clock of the test's
// own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/loaded_engine.h"

namespace soli {
namespace {

LoadedEngine load_olmoe_to_schedule(const EngineOptions& options) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 1}, options);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return std::move(*loaded);
}

Request greedy(size_t n_prompt, int64_t max_new_tokens, uint32_t tenant = 0, int32_t priority = 0) {
  Request request = {.prompt = random_prompt(n_prompt, n_prompt, 280),
                     .max_new_tokens = max_new_tokens,
                     .sampling = {.temperature = 0}};
  request.tenant = tenant;
  request.priority = priority;
  return request;
}

/// Takes an event.
bool has_begun(Stream& stream) { return stream.try_pop().has_value(); }

TEST(Scheduling, ManyRequestsOfOneTenantDelayAnotherByOne) {
  LoadedEngine loaded =
      load_olmoe_to_schedule({.context_length = 64, .max_sequences = 2, .max_queued = 2000});
  Engine& engine = *loaded.engine;
  std::vector<std::shared_ptr<Stream>> many;
  for (int i = 0; i < 1000; ++i) many.push_back(engine.submit(greedy(8, 6, 1)).value());
  for (int i = 0; i < 40; ++i) engine.step();
  const auto other = engine.submit(greedy(8, 6, 2)).value();
  const int64_t n_before = engine.counters().finished(FinishReason::kMaxNewTokens);
  while (!has_begun(*other)) ASSERT_TRUE(engine.step());
  EXPECT_LE(engine.counters().finished(FinishReason::kMaxNewTokens) - n_before, 3);
  engine.cancel_all();
  engine.step();
  EXPECT_EQ(engine.counters().n_waiting, 0);
}

TEST(Scheduling, PromptsOfTheLeastServedTenantAreReadFirst) {
  LoadedEngine loaded = load_olmoe_to_schedule({.context_length = 512, .max_sequences = 8, .chunk_rows = 32});
  Engine& engine = *loaded.engine;
  std::vector<std::shared_ptr<Stream>> long_ones;
  for (int i = 0; i < 4; ++i) long_ones.push_back(engine.submit(greedy(400, 1, 1)).value());
  engine.step();
  const auto short_one = engine.submit(greedy(20, 1, 2)).value();
  for (int i = 0; i < 2; ++i) engine.step();
  EXPECT_TRUE(has_begun(*short_one)) << "and not after 1,600 tokens of the other";
}

TEST(Scheduling, WhoLostItsPagesDoesNotTakeThemBackBeforeTheOneThatStarves) {
  const EngineOptions options = {
      .context_length = 256, .max_sequences = 2, .chunk_rows = 4, .max_kv_pages = 4};
  const std::vector<Request> requests = {greedy(190, 1, 1, 0), greedy(40, 150, 1, 5)};
  LoadedEngine loaded = load_olmoe_to_schedule(options);
  Engine& engine = *loaded.engine;
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& request : requests) streams.push_back(engine.submit(request).value());
  // Each holds two pages and needs a third: the prompt of the older, and the younger, which goes before it.
  std::vector<std::vector<int32_t>> tokens(2);
  const auto read = [&](size_t i) {
    while (auto event = streams[i]->try_pop()) {
      if (event->kind == StreamEvent::Kind::kToken) tokens[i].push_back(event->token);
    }
  };
  while (engine.step()) {
    for (const size_t i : {0, 1}) read(i);
  }
  EXPECT_EQ(engine.counters().finished(FinishReason::kMaxNewTokens), 2);
  EXPECT_GT(engine.counters().n_preempted, 0);
  EXPECT_LT(engine.counters().n_preempted, 10);
  LoadedEngine alone = load_olmoe_to_schedule({.context_length = 256});
  for (const size_t i : {0, 1}) {
    streams[i] = alone.engine->submit(requests[i]).value();
    const auto shared = tokens[i];
    tokens[i].clear();
    while (alone.engine->step()) read(i);
    EXPECT_EQ(shared, tokens[i]);
  }
}

TEST(Scheduling, AClientThatDoesNotReadKeepsNoPagesFromAnother) {
  const EngineOptions options = {.context_length = 256, .max_sequences = 2, .max_kv_pages = 4};
  LoadedEngine loaded = load_olmoe_to_schedule(options);
  Engine& engine = *loaded.engine;
  const Request slow_request = greedy(190, 66);
  const Request quick_request = greedy(100, 20);
  const auto slow = engine.submit(slow_request).value();
  while (engine.step()) {
  }
  ASSERT_TRUE(slow->is_full()) << "with all pages";
  Answer quick_answer;
  const auto quick = engine.submit(quick_request).value();
  for (int i = 0; i < 200 && !drain(*quick, quick_answer); ++i) engine.step();
  EXPECT_EQ(quick_answer.tokens.size(), 20U);
  EXPECT_EQ(engine.counters().n_preempted, 1);
  Answer slow_answer;
  while (!drain(*slow, slow_answer)) engine.step();
  LoadedEngine alone = load_olmoe_to_schedule({.context_length = 256});
  EXPECT_EQ(slow_answer.tokens, run_together(*alone.engine, {slow_request}).front().tokens);
  EXPECT_EQ(quick_answer.tokens, run_together(*alone.engine, {quick_request}).front().tokens);
}

TEST(Scheduling, AClientThatDoesNotReadKeepsNoPlace) {
  LoadedEngine loaded = load_olmoe_to_schedule({.context_length = 256, .max_sequences = 1, .max_queued = 2});
  LoadedEngine alone = load_olmoe_to_schedule({.context_length = 256});
  Engine& engine = *loaded.engine;
  const std::vector<Request> requests = {greedy(10, 200), greedy(11, 200), greedy(12, 200), greedy(13, 200)};
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& request : requests) {
    streams.push_back(engine.submit(request).value());
    while (engine.step()) {
    }
  }
  // One has the place, and as many as may wait are paused beside it.
  EngineCounters now = engine.counters();
  EXPECT_EQ(now.n_paused, 3);
  EXPECT_EQ(now.n_running, 3);
  EXPECT_EQ(now.n_waiting, 1);
  std::vector<Answer> answers(streams.size());
  size_t n_ended = 0;
  while (n_ended < streams.size()) {
    // All have read, and there is still one place.
    for (size_t i = 0; i < streams.size(); ++i) {
      if (answers[i].tokens.size() < 200) n_ended += drain(*streams[i], answers[i]) ? 1 : 0;
    }
    const int64_t n_before = engine.counters().decode_rows;
    engine.step();
    EXPECT_LE(engine.counters().decode_rows - n_before, 1);
  }
  EXPECT_EQ(engine.counters().n_paused, 0);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(answers[i].tokens, run_together(*alone.engine, {requests[i]}).front().tokens);
}

TEST(Scheduling, SlowReadersThatAllReadAtOnceHoldUpNobody) {
  LoadedEngine loaded = load_olmoe_to_schedule({.context_length = 256, .max_sequences = 2});
  Engine& engine = *loaded.engine;
  std::vector<std::shared_ptr<Stream>> slow;
  for (int i = 0; i < 5; ++i) slow.push_back(engine.submit(greedy(4, 200)).value());
  while (engine.step()) {
  }
  ASSERT_EQ(engine.counters().n_paused, 5);
  const auto quick = engine.submit(greedy(4, 30)).value();
  engine.step();
  for (const auto& stream : slow) {
    while (stream->try_pop()) {
    }
  }
  Answer answer;
  for (int i = 0; i < 29; ++i) engine.step();
  EXPECT_TRUE(drain(*quick, answer)) << "a token in every step";
}

TEST(Scheduling, PausedSequencesGiveTheirPagesToThoseThatRun) {
  const EngineOptions options = {.context_length = 256, .max_sequences = 3, .max_kv_pages = 5};
  LoadedEngine loaded = load_olmoe_to_schedule(options);
  Engine& engine = *loaded.engine;
  const Request slow_request = greedy(120, 100);
  const auto slow = engine.submit(slow_request).value();
  while (engine.step()) {
  }
  ASSERT_TRUE(slow->is_full()) << "with three of five pages";
  const std::vector<Request> requests = {greedy(60, 100), greedy(61, 100)};
  const auto streams = engine.submit_all(requests).value();
  std::vector<Answer> answers(2);
  // Both run at once, and neither waits for the other's end or loses its pages to it.
  while (!drain(*streams[0], answers[0])) {
    ASSERT_TRUE(engine.step());
    drain(*streams[1], answers[1]);
  }
  EXPECT_GT(answers[1].tokens.size(), 50U);
  Answer slow_answer;
  bool has_ended = false;
  while (!has_ended || answers[1].tokens.size() < 100) {
    engine.step();
    drain(*streams[1], answers[1]);
    has_ended = has_ended || drain(*slow, slow_answer);
  }
  LoadedEngine alone = load_olmoe_to_schedule({.context_length = 256});
  EXPECT_EQ(slow_answer.tokens, run_together(*alone.engine, {slow_request}).front().tokens);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(answers[i].tokens, run_together(*alone.engine, {requests[i]}).front().tokens);
}

TEST(Scheduling, TheRequestsOfOneAnswerAreQueuedTogetherOrNotAtAll) {
  LoadedEngine loaded =
      load_olmoe_to_schedule({.max_sequences = 1, .max_queued = 3, .max_queued_per_tenant = 2});
  Engine& engine = *loaded.engine;
  const auto n_waiting = [&] { return engine.counters().n_waiting; };
  EXPECT_FALSE(engine.submit_all(std::vector<Request>(4, greedy(4, 4, 1)))) << "of one tenant";
  EXPECT_EQ(n_waiting(), 0);
  EXPECT_EQ(engine.counters().n_refused, 0) << "the queue was not to blame";
  EXPECT_TRUE(engine.submit_all(std::vector<Request>(3, greedy(4, 4, 1)))) << "one has a place";
  const auto refused = engine.submit_all(std::vector<Request>(2, greedy(4, 4, 2)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);
  EXPECT_EQ(engine.counters().n_refused, 2);
  EXPECT_EQ(n_waiting(), 3);
  std::vector<Request> one_is_wrong = {greedy(4, 4, 2), greedy(4, 4, 2)};
  one_is_wrong[1].prompt.clear();
  EXPECT_FALSE(engine.submit_all(one_is_wrong));
  EXPECT_EQ(n_waiting(), 3);
  EXPECT_TRUE(engine.submit(greedy(4, 4, 2)));
}

TEST(Scheduling, PriorityDecidesWithinATenant) {
  LoadedEngine loaded = load_olmoe_to_schedule({.context_length = 64, .max_sequences = 1});
  Engine& engine = *loaded.engine;
  std::vector<RequestId> order;
  std::vector<std::shared_ptr<Stream>> streams;
  for (const int32_t priority : {0, 1, 7, 1}) {
    streams.push_back(engine.submit(greedy(4, 1, 3, priority)).value());
    Stream& stream = *streams.back();
    stream.set_on_ready([&order, &stream] {
      while (auto event = stream.try_pop()) {
        if (event->kind == StreamEvent::Kind::kFinished) order.push_back(stream.id());
      }
    });
  }
  while (engine.step()) {
  }
  EXPECT_EQ(order, (std::vector<RequestId>{3, 2, 4, 1}));
}

TEST(Scheduling, ATenantMayHaveALimitOfItsOwn) {
  LoadedEngine loaded =
      load_olmoe_to_schedule({.max_sequences = 1, .max_queued = 3, .max_queued_per_tenant = 2});
  Engine& engine = *loaded.engine;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.submit(greedy(4, 1, 1))) << "a place, and two that wait";
  const auto fourth = engine.submit(greedy(4, 1, 1));
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(fourth.error().message, testing::HasSubstr("3 of your requests wait, 2 may"));
  EXPECT_TRUE(engine.submit(greedy(4, 1, 2)));
  EXPECT_FALSE(engine.submit(greedy(4, 1, 2))) << "the queue is full";
  EXPECT_EQ(engine.counters().n_refused, 2);
}

TEST(Scheduling, WhoHasNoPagesWaitsInTheQueue) {
  LoadedEngine loaded =
      load_olmoe_to_schedule({.context_length = 256, .max_sequences = 8, .max_kv_pages = 5});
  Engine& engine = *loaded.engine;
  const std::vector<Request> requests(6, greedy(100, 20));
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& request : requests) streams.push_back(engine.submit(request).value());
  engine.step();
  EXPECT_EQ(engine.counters().n_running, 2) << "of two pages each";
  EXPECT_EQ(engine.counters().n_waiting, 4);
  int n_finished = 0;
  while (engine.step()) {
    for (const auto& stream : streams) {
      while (auto event = stream->try_pop()) {
        n_finished += event->kind == StreamEvent::Kind::kFinished ? 1 : 0;
        EXPECT_FALSE(event->error);
      }
    }
  }
  EXPECT_EQ(n_finished, 6);
  EXPECT_EQ(engine.counters().n_preempted, 0);
}

TEST(Scheduling, WhoLeavesFreesItsRowWithinAStepWhereverItIs) {
  LoadedEngine loaded = load_olmoe_to_schedule({.context_length = 512, .max_sequences = 3, .chunk_rows = 16});
  Engine& engine = *loaded.engine;
  const auto decodes = engine.submit(greedy(4, 100)).value();
  engine.step();
  const auto stays = engine.submit(greedy(5, 30)).value();
  const auto reads = engine.submit(greedy(400, 5)).value();
  const auto waits = engine.submit(greedy(4, 5)).value();
  for (int i = 0; i < 3; ++i) engine.step();
  EXPECT_EQ(engine.counters().n_running, 3);
  EXPECT_EQ(engine.counters().n_waiting, 1);
  for (const auto& stream : {decodes, reads, waits}) stream->close();
  engine.step();
  EXPECT_EQ(engine.counters().n_running, 1);
  EXPECT_EQ(engine.counters().n_waiting, 0);
  EXPECT_EQ(engine.counters().kv_pages_in_use, 1);
  Answer answer;
  while (!drain(*stays, answer)) engine.step();
  LoadedEngine quiet = load_olmoe_to_schedule({.context_length = 512});
  EXPECT_EQ(answer.tokens, run_together(*quiet.engine, {greedy(5, 30)}).front().tokens);
}

/// A machine whose steps take as long as their rows cost: the clock goes on with the first layer's routing.
class RowClock : public RouterObserver {
 public:
  void on_route(const RouterView& view, const Choice&) override {
    if (view.layer > 0) return;
    rows.push_back(static_cast<int64_t>(view.rows.size()));
    now += std::chrono::microseconds(10'000 + 500 * rows.back());
  }
  const EngineClock clock = [this] { return now; };
  EngineTime now = {};
  std::vector<int64_t> rows;  // of every step
};

TEST(Scheduling, ALongPromptLeavesRunningStreamsTheirPaceAndAllTheirTokens) {
  const EngineOptions options = {.context_length = 1024, .max_logit_rows = 16};
  LoadedEngine free = load_olmoe_to_schedule(options);
  std::vector<Request> requests(4, greedy(6, 400));
  requests.push_back(greedy(600, 5));
  const auto expected = run_together(*free.engine, requests);

  RowClock machine;
  EngineOptions paced = options;
  paced.max_slowdown = 2.5;
  paced.clock = &machine.clock;
  paced.hooks.observer = &machine;
  LoadedEngine loaded = load_olmoe_to_schedule(paced);
  Engine& engine = *loaded.engine;
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<Answer> answers(requests.size());
  std::vector<bool> ended(requests.size(), false);
  const auto step = [&] {
    engine.step();
    for (size_t i = 0; i < streams.size(); ++i) ended[i] = ended[i] || drain(*streams[i], answers[i]);
  };
  for (int i = 0; i < 4; ++i) streams.push_back(engine.submit(requests[static_cast<size_t>(i)]).value());
  for (int i = 0; i < 10; ++i) step();
  const size_t n_before = machine.rows.size();
  streams.push_back(engine.submit(requests[4]).value());
  while (answers[4].tokens.empty()) step();
  // Undisturbed, a step of 4 rows takes 12 ms here; 30 ms are the limit, and 40 rows take that.
  const auto begin = machine.rows.begin() + static_cast<std::ptrdiff_t>(n_before);
  EXPECT_LE(*std::max_element(begin, machine.rows.end()), 40);
  EXPECT_LT(machine.rows.end() - begin, 600 / 20) << "and it is made use of";
  while (std::find(ended.begin(), ended.end(), false) != ended.end()) step();
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(answers[i].tokens, expected[i].tokens) << i;

  machine.rows.clear();
  run_together(engine, {greedy(600, 1)});
  EXPECT_EQ(machine.rows.front(), 512) << "nobody decodes: the whole chunk";
}

TEST(Scheduling, RefusesLimitsWithoutMeaning) {
  LoadedEngine loaded = load_olmoe_to_schedule({});
  for (const EngineOptions& options :
       {EngineOptions{.max_queued_per_tenant = -1}, EngineOptions{.max_kv_pages = -1},
        EngineOptions{.max_cached_pages = -2}, EngineOptions{.max_slowdown = 0.5},
        EngineOptions{.max_slowdown = std::nan("")}}) {
    EXPECT_FALSE(Engine::create(*loaded.model, *loaded.executor, options));
  }
}

}  // namespace
}  // namespace soli
