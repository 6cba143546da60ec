// What the engine refuses, how streams end, and how it behaves under several threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <span>
#include <thread>

#include "support/loaded_engine.h"

namespace soli {
namespace {

using testing::HasSubstr;

LoadedEngine load_olmoe(const EngineOptions& options = {}) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 2}, options);
  EXPECT_TRUE(loaded);
  return std::move(*loaded);
}

std::string refusal(Engine& engine, const Request& request) {
  const auto stream = engine.submit(request);
  return stream ? "accepted" : stream.error().message;
}

TEST(Engine, RefusesWhatARequestCannotAsk) {
  LoadedEngine loaded = load_olmoe({.context_length = 16});
  Engine& engine = *loaded.engine;
  EXPECT_THAT(refusal(engine, {}), HasSubstr("prompt is empty"));
  EXPECT_THAT(refusal(engine, {.prompt = {-1}}), HasSubstr("token id -1"));
  EXPECT_THAT(refusal(engine, {.prompt = {286}}), AllOf(HasSubstr("token id 286"), HasSubstr("0 to 285")));
  EXPECT_THAT(refusal(engine, {.prompt = std::vector<int32_t>(17, 1)}),
              AllOf(HasSubstr("17"), HasSubstr("16")));
  EXPECT_THAT(refusal(engine, {.prompt = {1}, .max_new_tokens = -2}), HasSubstr("-2"));
  EXPECT_THAT(refusal(engine, {.prompt = {1}, .sampling = {.temperature = NAN}}), HasSubstr("temp"));
  EXPECT_THAT(refusal(engine, {.prompt = {1}, .policy = {.experts_per_token = 4}}), HasSubstr("1 to 3"));
  EXPECT_THAT(refusal(engine, {.prompt = {1}, .policy = {.relative_threshold = 2}}), HasSubstr("0 to 1"));
  EXPECT_THAT(refusal(engine, {.prompt = {1}, .policy = {.relative_threshold = 0.5, .k_min = 0}}),
              HasSubstr("k_min"));
  EXPECT_THAT(refusal(engine, {.prompt = {1}, .adapter = 3}), HasSubstr("adapter 3"));
  EXPECT_FALSE(engine.step()) << "nothing was queued";
}

TEST(Engine, TheQueueHasALimitBesideFreePlaces) {
  LoadedEngine loaded = load_olmoe({.max_sequences = 4, .max_queued = 2});
  Engine& engine = *loaded.engine;
  const std::vector<Request> requests(7, Request{.prompt = {1}, .max_new_tokens = 3});
  const auto too_many = engine.submit_all(requests);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().kind, ErrorKind::kInvalidArgument) << "it never fits";
  EXPECT_EQ(too_many.error().message,
            "7 texts at once are more than there is ever room for: 4 may run and 2 wait");
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(engine.submit_all(std::span(requests).first(6))) << "idle";
    for (int i = 0; i < 2; ++i) {  // while all wait, and while four run
      const auto refused = engine.submit(requests[0]);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);
      EXPECT_THAT(refused.error().message, HasSubstr("the queue is full"));
      engine.step();
    }
    while (engine.step()) {
    }
  }
  EXPECT_EQ(engine.counters().finished(FinishReason::kMaxNewTokens), 12);
  EXPECT_EQ(engine.counters().n_refused, 4);
}

TEST(Engine, ATenantMayTakeFreePlacesThatNobodyElseWaitsFor) {
  LoadedEngine loaded = load_olmoe({.max_sequences = 4, .max_queued = 8, .max_queued_per_tenant = 1});
  Engine& engine = *loaded.engine;
  const auto submit = [&](uint32_t tenant, size_t n) {
    Request request = {.prompt = {1}, .max_new_tokens = 3};
    request.tenant = tenant;
    const auto streams = engine.submit_all(std::vector<Request>(n, request));
    return streams ? std::nullopt : std::optional(streams.error().kind);
  };
  EXPECT_EQ(submit(1, 6), ErrorKind::kInvalidArgument) << "four run, and one waits";
  EXPECT_EQ(submit(1, 5), std::nullopt);
  EXPECT_EQ(submit(1, 1), ErrorKind::kLimit);
  EXPECT_EQ(submit(2, 2), ErrorKind::kLimit) << "the places are promised";
  EXPECT_EQ(submit(2, 1), std::nullopt);
  engine.step();
  EXPECT_EQ(submit(1, 1), ErrorKind::kLimit);
  while (engine.step()) {
  }
  EXPECT_EQ(submit(1, 5), std::nullopt);
}

TEST(Engine, RefusesOptionsWithoutMeaning) {
  LoadedEngine loaded = load_olmoe();
  for (const EngineOptions& options :
       {EngineOptions{.context_length = -1}, EngineOptions{.max_sequences = 0},
        EngineOptions{.chunk_rows = 0}, EngineOptions{.max_logit_rows = 1 << 20},
        EngineOptions{.max_queued = -5}}) {
    EXPECT_FALSE(Engine::create(*loaded.model, *loaded.executor, options));
  }
}

TEST(Engine, FinishesForTheReasonThatItNames) {
  LoadedEngine loaded = load_olmoe({.context_length = 12});
  const auto run = [&](Request request) {
    request.sampling.temperature = 0;
    return run_together(*loaded.engine, {std::move(request)}).front();
  };
  const Answer none = run({.prompt = {5, 6}, .max_new_tokens = 0});
  EXPECT_EQ(none.reason, FinishReason::kMaxNewTokens);
  EXPECT_TRUE(none.tokens.empty());
  const Answer one = run({.prompt = {5, 6}, .max_new_tokens = 1});
  EXPECT_EQ(one.reason, FinishReason::kMaxNewTokens);
  EXPECT_EQ(one.tokens.size(), 1U);
  const Answer all = run({.prompt = {5, 6}});
  EXPECT_EQ(all.reason, FinishReason::kContextFull);
  EXPECT_EQ(all.tokens.size(), 10U);
  const Answer ended = run({.prompt = {5, 6}, .end_tokens = {all.tokens[3]}});
  EXPECT_EQ(ended.reason, FinishReason::kEndToken);
  EXPECT_EQ(ended.tokens.back(), all.tokens[3]);
  const Answer full = run({.prompt = std::vector<int32_t>(12, 7)});
  EXPECT_EQ(full.reason, FinishReason::kContextFull);
  EXPECT_TRUE(full.tokens.empty());
}

TEST(Engine, PromptLogprobsAreThoseOfTheLogits) {
  LoadedEngine loaded = load_olmoe({.chunk_rows = 3});
  const std::vector<int32_t> prompt = {5, 60, 7, 8, 90, 11, 250};
  const Answer logits = run_together(*loaded.engine, {greedy_with_logits(prompt, 0)}).front();
  Request request = {.prompt = prompt, .max_new_tokens = 0, .prompt_detail = Detail::kLogprob};
  const Answer logprobs = run_together(*loaded.engine, {request}).front();
  ASSERT_EQ(logprobs.prompt_logprobs.size(), prompt.size() - 1);
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    EXPECT_DOUBLE_EQ(logprobs.prompt_logprobs[i], log_probability(logits.logits[i], prompt[i + 1]));
  }
}

TEST(Engine, TopLogprobsAreThoseOfTheLogits) {
  LoadedEngine loaded = load_olmoe({.chunk_rows = 3});
  Request request = greedy_with_logits({5, 60, 7, 8, 90}, 4);
  const Answer logits = run_together(*loaded.engine, {request}).front();
  request.prompt_detail = request.generated_detail = Detail::kTopLogprobs;
  request.n_top_logprobs = 3;
  const auto stream = loaded.engine->submit(request).value();
  while (loaded.engine->step()) {
  }
  for (size_t i = 0; i < 9; ++i) {
    const StreamEvent event = stream->pop();
    EXPECT_EQ(event.position, static_cast<int64_t>(i));
    if (i == 0) {
      EXPECT_TRUE(!event.logprob && event.top_logprobs.empty()) << "nothing stands before it";
      continue;
    }
    // The logits after the token before; those of the last prompt token are delivered twice.
    const std::vector<float>& row = logits.logits[i < 5 ? i - 1 : i];
    EXPECT_EQ(event.logprob, log_probability(row, event.token));
    EXPECT_EQ(event.top_logprobs, top_log_probabilities(row, 3));
    if (i >= 5) {
      EXPECT_EQ(event.top_logprobs.front().token, event.token);
    }
  }
  request.n_top_logprobs = -1;
  EXPECT_THAT(refusal(*loaded.engine, request), HasSubstr("top logprobs: -1"));
}

TEST(Engine, AClientThatLeavesFreesItsRowAndDisturbsNobody) {
  LoadedEngine loaded = load_olmoe();
  const Request request = {.prompt = {1, 2, 3}, .max_new_tokens = 30, .sampling = {.temperature = 0}};
  const Answer undisturbed = run_together(*loaded.engine, {request}).front();
  const auto stays = loaded.engine->submit(request).value();
  const auto leaves = loaded.engine->submit({.prompt = {9, 9, 9, 9}}).value();
  for (int i = 0; i < 5; ++i) loaded.engine->step();
  leaves->close();
  loaded.engine->step();
  EXPECT_EQ(loaded.engine->kv_pages().n_pages_in_use(), 1) << "freed within one step";
  Answer left;
  EXPECT_TRUE(drain(*leaves, left));
  EXPECT_EQ(left.reason, FinishReason::kCancelled);
  Answer answer;
  while (!drain(*stays, answer)) loaded.engine->step();
  EXPECT_EQ(answer.tokens, undisturbed.tokens);
}

TEST(Engine, AFullStreamPausesItsRowOnly) {
  LoadedEngine loaded = load_olmoe({.context_length = 256});
  const auto slow = loaded.engine->submit({.prompt = {1, 2}, .max_new_tokens = 200}).value();
  const auto quick = loaded.engine->submit({.prompt = {3, 4}, .max_new_tokens = 200}).value();
  Answer quick_answer;
  while (!drain(*quick, quick_answer)) ASSERT_TRUE(loaded.engine->step());
  EXPECT_EQ(quick_answer.tokens.size(), 200U);
  EXPECT_TRUE(slow->is_full());
  EXPECT_FALSE(loaded.engine->step()) << "all that run are paused";
  Answer slow_answer;
  while (!drain(*slow, slow_answer)) loaded.engine->step();
  EXPECT_EQ(slow_answer.tokens.size(), 200U) << "nothing is lost";
}

TEST(Engine, ManyClientsOnThreadsOfTheirOwn) {
  LoadedEngine loaded = load_olmoe({.max_sequences = 3});
  const Request request = {.prompt = {1, 2, 3}, .max_new_tokens = 20, .sampling = {.temperature = 0}};
  const Answer expected = run_together(*loaded.engine, {request}).front();
  std::atomic<int> n_open{6};
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      const auto stream = loaded.engine->submit(request).value();
      std::vector<int32_t> tokens;
      for (StreamEvent event = stream->pop(); event.kind != StreamEvent::Kind::kFinished;
           event = stream->pop()) {
        tokens.push_back(event.token);
        if (i == 5 && tokens.size() == 4) stream->close();
      }
      if (i != 5) {
        EXPECT_EQ(tokens, expected.tokens);
      }
      --n_open;
    });
  }
  while (n_open > 0) {
    if (!loaded.engine->step()) std::this_thread::yield();
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(loaded.engine->kv_pages().n_pages_in_use(), 0);
}

TEST(Engine, DestroyingItEndsItsStreams) {
  LoadedEngine loaded = load_olmoe();
  const auto running = loaded.engine->submit({.prompt = {1}}).value();
  loaded.engine->step();
  const auto queued = loaded.engine->submit({.prompt = {1}}).value();
  loaded.engine.reset();
  Answer answer;
  EXPECT_TRUE(drain(*running, answer));
  EXPECT_TRUE(drain(*queued, answer));
  EXPECT_EQ(answer.reason, FinishReason::kCancelled);
}

}  // namespace
}  // namespace soli
