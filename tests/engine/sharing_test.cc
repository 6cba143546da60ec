// Requests that take pages of others: nobody can tell by the bits. Warm and cold, after pages were taken
// away, with next to no pages, in any order of coming and going.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support/gguf_rewrite.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

constexpr int64_t kSharedPage = kKvPagePositions;

LoadedEngine load(const std::string& model, EngineOptions options,
                  int64_t memory_bytes = Budget::kUnlimited) {
  options.prefix_cache = true;
  auto loaded = LoadedEngine::create(GoldenCase(model).model_path(),
                                     {.n_threads = 1, .memory_bytes = memory_bytes}, options);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return std::move(*loaded);
}

Request greedy(std::vector<int32_t> prompt, int64_t max_new_tokens) {
  return {.prompt = std::move(prompt),
          .max_new_tokens = max_new_tokens,
          .sampling = {.temperature = 0},
          .generated_detail = Detail::kLogits};
}

/// Runs one request and says with its answer what was cached.
std::pair<Answer, RequestSummary> run_one(Engine& engine, const Request& request) {
  const auto stream = engine.submit(request).value();
  std::pair<Answer, RequestSummary> result;
  while (true) {
    engine.step();
    while (auto event = stream->try_pop()) {
      if (event->kind == StreamEvent::Kind::kToken) result.first.tokens.push_back(event->token);
      if (!event->logits.empty()) result.first.logits.push_back(std::move(event->logits));
      if (event->kind != StreamEvent::Kind::kFinished) continue;
      result.first.reason = event->reason;
      result.second = event->summary;
      return result;
    }
  }
}

TEST(Sharing, AWarmRequestHasTheBitsOfAColdOne) {
  for (const char* model : {"olmoe", "mixtral", "deepseek2-v3", "gpt-oss", "llama-dense"}) {
    SCOPED_TRACE(model);
    LoadedEngine cold = load(model, {.context_length = 256});
    LoadedEngine warm = load(model, {.context_length = 256, .chunk_rows = 37});
    const int64_t vocab_size = warm.model->spec().vocab_size;
    const auto prompt = random_prompt(7, 150, vocab_size);
    run_one(*warm.engine, greedy(prompt, 60));
    auto changed = prompt;
    changed[100] = changed[100] == 3 ? 4 : 3;
    auto longer = prompt;
    longer.resize(200, 5);
    struct Case {
      std::vector<int32_t> prompt;
      int64_t n_cached;
    };
    const std::vector<Case> cases = {{prompt, 149},   // the last token is computed, always
                                     {changed, 100},  // a part of the second page
                                     {longer, 150},   // of the third, with generated tokens behind
                                     {{prompt.begin(), prompt.begin() + 128}, 127},
                                     {{prompt.begin(), prompt.begin() + 64}, 63},
                                     {{prompt.begin(), prompt.begin() + 20}, 19},
                                     {{prompt.begin(), prompt.begin() + 5}, 0}};
    for (size_t i = 0; i < cases.size(); ++i) {
      const Request request = greedy(cases[i].prompt, 12);
      Request alone = request;
      alone.use_prefix_cache = false;
      const auto [expected, cold_summary] = run_one(*cold.engine, alone);
      const auto [answer, summary] = run_one(*warm.engine, request);
      EXPECT_TRUE(same_bits(expected, answer)) << i;
      EXPECT_EQ(cold_summary.n_cached, 0);
      if (i == 2) {
        EXPECT_GE(summary.n_cached, 150) << "beside it, what was generated alike";
      } else {
        EXPECT_EQ(summary.n_cached, cases[i].n_cached) << i;
      }
    }
    EXPECT_EQ(cold.engine->counters().prefix_cache_pages, 0) << "they left nothing";
  }
}

TEST(Sharing, AFollowUpTakesWhatWasGenerated) {
  LoadedEngine loaded = load("olmoe", {.context_length = 512});
  auto prompt = random_prompt(1, 100, loaded.model->spec().vocab_size);
  const Answer first = run_one(*loaded.engine, greedy(prompt, 100)).first;
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  prompt.insert(prompt.end(), {1, 2, 3, 4});
  const auto [answer, summary] = run_one(*loaded.engine, greedy(prompt, 5));
  EXPECT_EQ(summary.n_cached, 192) << "three whole pages of 199 tokens";
  EXPECT_EQ(loaded.engine->counters().cached_prompt_tokens, 192);
}

TEST(Sharing, DifferentPoliciesShareNothing) {
  LoadedEngine loaded = load("olmoe", {.context_length = 256});
  const auto prompt = random_prompt(1, 130, loaded.model->spec().vocab_size);
  Request fewer = greedy(prompt, 4);
  fewer.policy.experts_per_token = 1;
  const Answer expected = run_one(*loaded.engine, fewer).first;
  const auto [other, other_summary] = run_one(*loaded.engine, greedy(prompt, 4));
  EXPECT_EQ(other_summary.n_cached, 0);
  const auto [again, summary] = run_one(*loaded.engine, fewer);
  EXPECT_EQ(summary.n_cached, 128);
  EXPECT_TRUE(same_bits(expected, again));
  EXPECT_FALSE(same_bits(expected, other));
}

TEST(Sharing, WhoWantsLogitsOfThePromptComputesIt) {
  LoadedEngine loaded = load("olmoe", {.context_length = 256});
  const auto prompt = random_prompt(1, 130, loaded.model->spec().vocab_size);
  run_one(*loaded.engine, greedy(prompt, 4));
  for (const Detail detail : {Detail::kLogits, Detail::kLogprob}) {
    Request request = greedy(prompt, 4);
    request.prompt_detail = detail;
    const auto [answer, summary] = run_one(*loaded.engine, request);
    EXPECT_EQ(summary.n_cached, 0);
    EXPECT_EQ(answer.logits.size(), detail == Detail::kLogits ? 134U : 4U);
  }
}

TEST(Sharing, RequestsThatComeTogetherReadTheirCommonPromptOnce) {
  LoadedEngine loaded = load("olmoe", {.context_length = 512, .max_sequences = 4});
  const auto prompt = random_prompt(1, 200, loaded.model->spec().vocab_size);
  const std::vector<Request> requests(4, greedy(prompt, 6));
  const auto answers = run_together(*loaded.engine, requests);
  for (const Answer& answer : answers) EXPECT_TRUE(same_bits(answers.front(), answer));
  const EngineCounters counters = loaded.engine->counters();
  EXPECT_EQ(counters.prompt_tokens, 800);
  EXPECT_EQ(counters.cached_prompt_tokens, 3 * 192);
  EXPECT_EQ(counters.prompt_rows, 200 + 3 * 8);
}

TEST(Sharing, AControlEndsIt) {
  struct Control : RouterControl {
    void edit_gate_input(const RouterView&, MatrixView<float>) override {}
    void edit_logits(const RouterView&, MatrixView<float> logits) override {
      for (int64_t row = 0; row < logits.rows; ++row) logits.row(row)[3] = -1e30F;
    }
    void edit_choice(const RouterView&, Choice&) override {}
    void edit_expert_outputs(const RouterView&, const Choice&, MatrixView<float>) override {}
  } control;
  LoadedEngine loaded = load("olmoe", {.context_length = 256});
  Engine& engine = *loaded.engine;
  const Request request = greedy(random_prompt(1, 130, loaded.model->spec().vocab_size), 4);
  const Answer plain = run_one(engine, request).first;
  const auto begun_before = engine.submit(request).value();
  engine.step();
  engine.set_hooks({.control = &control});
  EXPECT_EQ(engine.counters().prefix_cache_pages, 2);
  const auto [steered, summary] = run_one(engine, request);
  EXPECT_EQ(summary.n_cached, 0);
  EXPECT_FALSE(same_bits(plain, steered));
  EXPECT_EQ(run_one(engine, request).second.n_cached, 0) << "nothing is kept under a control";
  engine.set_hooks({});
  const auto [after, after_summary] = run_one(engine, request);
  EXPECT_EQ(after_summary.n_cached, 0);
  EXPECT_TRUE(same_bits(plain, after));
}

TEST(Sharing, PagesOfARequestThatFailsAreNotKept) {
  const TemporaryFolder folder;
  GgufRewrite file(GoldenCase("olmoe").model_path());
  GgufRewrite::Tensor& embedding = file.tensor("token_embd.weight");
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  const auto row_bytes = embedding.data.size() / static_cast<size_t>(embedding.dims[1]);
  std::memcpy(embedding.data.data() + 17 * row_bytes, &not_a_number, sizeof(float));
  auto loaded = LoadedEngine::create(file.write(folder / "model.gguf"), {.n_threads = 1},
                                     {.context_length = 256, .prefix_cache = true});
  ASSERT_TRUE(loaded);
  std::vector<int32_t> prompt(130, 5);
  prompt[70] = 17;
  EXPECT_EQ(run_one(*loaded->engine, greedy(prompt, 4)).first.reason, FinishReason::kFailed);
  EXPECT_EQ(loaded->engine->counters().prefix_cache_pages, 0);
  EXPECT_EQ(loaded->engine->counters().kv_pages_in_use, 0);
}

/// What clients do to an engine in one run.
class Crowd {
 public:
  Crowd(Engine& engine, Engine& reference, uint64_t seed, int64_t vocab_size)
      : engine_(engine), reference_(reference), rng_(seed), vocab_size_(vocab_size) {}

  /// Prompts begin with one of a few texts, cut and continued at random.
  Request random_request() {
    Request request = greedy(random_prompt(rng_.next_below(3), 1 + rng_.next_below(180), vocab_size_),
                             static_cast<int64_t>(rng_.next_below(50)));
    const auto tail = random_prompt(rng_.next_below(4), rng_.next_below(30), vocab_size_);
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
    request.policy.experts_per_token = rng_.next_below(4) == 0 ? 1 : 0;
    request.use_prefix_cache = rng_.next_below(8) != 0;
    request.tenant = static_cast<uint32_t>(rng_.next_below(3));
    request.priority = static_cast<int32_t>(rng_.next_below(3));
    if (rng_.next_below(6) == 0) request.prompt_detail = Detail::kLogits;
    return request;
  }

  void act() {
    const uint64_t dice = rng_.next_below(10);
    if (dice < 4 && clients_.size() < 12) {
      const Request request = random_request();
      clients_.push_back({.request = request,
                          .stream = engine_.submit(request).value(),
                          .leaves = rng_.next_below(12) == 0,
                          .is_slow = rng_.next_below(4) == 0});
    }
    engine_.step();
    for (Client& client : clients_) {
      const bool reads = client.is_slow ? rng_.next_below(50) == 0 : rng_.next_below(4) != 0;
      if (!reads) continue;
      if (client.leaves && rng_.next_below(10) == 0) client.stream->close();
      client.ended = client.ended || drain(*client.stream, client.answer);
    }
    check_ended();
  }

  void finish() {
    while (!clients_.empty()) act_without_new();
  }

  int n_checked() const { return n_checked_; }

 private:
  struct Client {
    Request request;
    std::shared_ptr<Stream> stream;
    Answer answer = {};
    bool leaves = false;
    bool is_slow = false;
    bool ended = false;
  };

  void act_without_new() {
    engine_.step();
    for (Client& client : clients_) client.ended = client.ended || drain(*client.stream, client.answer);
    check_ended();
  }

  void check_ended() {
    std::erase_if(clients_, [&](const Client& client) {
      if (!client.ended) return false;
      if (client.answer.reason == FinishReason::kCancelled) return true;
      EXPECT_NE(client.answer.reason, FinishReason::kFailed);
      Request alone = client.request;
      alone.use_prefix_cache = false;
      const Answer expected = run_together(reference_, {alone}).front();
      EXPECT_TRUE(same_bits(expected, client.answer))
          << client.request.prompt.size() << " tokens, " << client.answer.tokens.size() << " generated";
      ++n_checked_;
      return true;
    });
  }

  Engine& engine_;
  Engine& reference_;
  Rng rng_;
  const int64_t vocab_size_;
  std::vector<Client> clients_;
  int n_checked_ = 0;
};

TEST(Sharing, AnyOrderOfComingAndGoingLeavesEveryBit) {
  LoadedEngine reference = load("olmoe", {.context_length = 320});
  const int64_t vocab_size = reference.model->spec().vocab_size;
  int64_t n_preempted = 0;
  int64_t n_evicted = 0;
  int64_t n_cached = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const int64_t max_pages = std::array{5, 6, 8, 12, 30, 0}[seed % 6];
    LoadedEngine loaded = load("olmoe", {.context_length = 320,
                                         .max_sequences = 2 + static_cast<int64_t>(seed % 4),
                                         .chunk_rows = std::array{16, 50, 300}[seed % 3],
                                         .max_logit_rows = 16,
                                         .max_kv_pages = max_pages,
                                         .max_cached_pages = seed % 4 == 3 ? 3 : 0,
                                         .keep_routing = seed % 2 == 0});
    Crowd crowd(*loaded.engine, *reference.engine, seed, vocab_size);
    for (int i = 0; i < 150; ++i) crowd.act();
    crowd.finish();
    EXPECT_GT(crowd.n_checked(), 4);
    const EngineCounters counters = loaded.engine->counters();
    EXPECT_EQ(counters.kv_pages_in_use, counters.prefix_cache_pages) << "no page is lost";
    EXPECT_TRUE(max_pages == 0 || counters.kv_pages <= max_pages);
    n_preempted += counters.n_preempted;
    n_evicted += counters.prefix_cache_evictions;
    n_cached += counters.cached_prompt_tokens;
    int64_t n_finished = 0;
    for (const int64_t n : counters.n_finished) n_finished += n;
    EXPECT_EQ(n_finished, counters.n_submitted);
  }
  EXPECT_GT(n_preempted, 0);
  EXPECT_GT(n_evicted, 0);
  EXPECT_GT(n_cached, 0);
}

TEST(Sharing, CachedPagesAreChargedAndGoBeforeAnythingIsRefused) {
  const EngineOptions options = {.context_length = 400};
  const LoadedEngine roomy = load("olmoe", options);
  const int64_t fixed_bytes = roomy.runtime->budget().used_bytes();
  const int64_t page_bytes = KvPagePool::charged_bytes(options.page_shape(roomy.model->spec()));
  LoadedEngine tight = load("olmoe", options, fixed_bytes + 5 * page_bytes);
  const int64_t vocab_size = tight.model->spec().vocab_size;
  for (uint64_t i = 0; i < 4; ++i) run_one(*tight.engine, greedy(random_prompt(i, 150, vocab_size), 4));
  EXPECT_EQ(tight.runtime->budget().used_by_name().at("kv pages"), 5 * page_bytes);
  EXPECT_GT(tight.engine->counters().prefix_cache_evictions, 0);
  const Request whole = greedy(random_prompt(9, 5 * kSharedPage - 10, vocab_size), 10);
  EXPECT_EQ(run_one(*tight.engine, whole).first.reason, FinishReason::kMaxNewTokens) << "all five pages";
  const auto [again, summary] = run_one(*tight.engine, whole);
  EXPECT_EQ(again.reason, FinishReason::kMaxNewTokens);
  EXPECT_EQ(summary.n_cached, 4 * kSharedPage);
  const Request too_long = greedy(random_prompt(9, 5 * kSharedPage + 1, vocab_size), 10);
  const auto stream = tight.engine->submit(too_long).value();
  while (tight.engine->step()) {
  }
  std::optional<StreamEvent> last;
  while (auto event = stream->try_pop()) last = std::move(event);
  ASSERT_TRUE(last && last->error);
  EXPECT_THAT(last->error->message, testing::HasSubstr("kv pages"));
}

/// All but the last token came from the cache, so that the sequence seems to decode; without room for a copy
/// of its page it is a prompt again, and must not get rows as both in one step.
TEST(Sharing, APageThatCannotBeCopiedAfterAWaitIsComputedOnce) {
  constexpr int32_t kOthers = 10;
  LoadedEngine loaded = load("olmoe", {.context_length = 256,
                                       .max_sequences = kOthers + 1,
                                       .chunk_rows = kOthers,
                                       .max_kv_pages = kOthers + 2});
  Engine& engine = *loaded.engine;
  const Request request =
      greedy(random_prompt(9, kSharedPage + 9, loaded.model->spec().vocab_size), kSharedPage);
  const Answer expected = run_one(engine, request).first;
  std::vector<std::shared_ptr<Stream>> slow;
  for (int32_t token = 0; token < kOthers; ++token)
    slow.push_back(engine.submit(greedy(std::vector<int32_t>(1, token), 100)).value());
  engine.step();
  // Its pages are there; its row has to wait until the others are paused, with a page each.
  const auto stream = engine.submit(request).value();
  Answer answer;
  for (int i = 0; i < 500 && !drain(*stream, answer); ++i) engine.step();
  for (const auto& other : slow) EXPECT_TRUE(other->is_full());
  EXPECT_TRUE(same_bits(expected, answer)) << answer.tokens.size() << " tokens";
}

TEST(Sharing, APageThatCannotBeCopiedIsComputedAgain) {
  LoadedEngine loaded = load("olmoe", {.context_length = 4 * kSharedPage, .max_kv_pages = 4});
  const Request request = greedy(random_prompt(9, 4 * kSharedPage, loaded.model->spec().vocab_size), 0);
  Request told = request;
  told.prompt_detail = Detail::kLogits;
  const Answer expected = run_one(*loaded.engine, told).first;
  EXPECT_EQ(loaded.engine->counters().prefix_cache_pages, 4);
  EXPECT_EQ(run_one(*loaded.engine, request).first.reason, FinishReason::kMaxNewTokens);
  EXPECT_EQ(loaded.engine->counters().kv_pages_in_use, 4);
  EXPECT_TRUE(same_bits(expected, run_one(*loaded.engine, told).first));
}

}  // namespace
}  // namespace soli
