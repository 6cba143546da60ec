// The same request gives the same bits with pages taken away and given back, beside a request that fails,
// watched or not. tests/exactness sweeps over batches, chunks, threads and instruction sets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <utility>

#include "support/gguf_rewrite.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

TEST(Exactness, AStepReadsEveryDistinctExpertOnce) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 2});
  ASSERT_TRUE(loaded);
  const ModelSpec& spec = loaded->model->spec();

  /// Counts the distinct experts of each layer in each step.
  struct DistinctCounter : RouterObserver {
    void on_route(const RouterView& view, const Choice& choice) override {
      std::vector<int32_t> ids = choice.ids;
      std::sort(ids.begin(), ids.end());
      n_distinct += std::unique(ids.begin(), ids.end()) - ids.begin();
      rows = std::max(rows, view.rows.size());
    }
    int64_t n_distinct = 0;
    size_t rows = 0;
  } counter;
  ASSERT_TRUE(
      loaded->restart({.context_length = 128, .max_logit_rows = 512, .hooks = {.observer = &counter}}));
  run_together(*loaded->engine, eight_requests(spec.vocab_size));
  int64_t n_reads = 0;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    for (int64_t e = 0; e < spec.router.n_experts; ++e) n_reads += loaded->store->reads(layer, e);
  }
  EXPECT_EQ(counter.rows, 1U + 2 + 7 + 16 + 33 + 64 + 65 + 90) << "the eight prompts shared a step";
  EXPECT_EQ(n_reads, counter.n_distinct);
}

TEST(Exactness, ABudgetThatForcesRecomputationChangesNothing) {
  const std::string path = GoldenCase("olmoe").model_path();
  const EngineOptions options = {
      .context_length = 256, .chunk_rows = 32, .max_logit_rows = 32, .kv_type = KvType::kF32};
  auto roomy = LoadedEngine::create(path, {.n_threads = 1}, options);
  ASSERT_TRUE(roomy);
  std::vector<Request> requests;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    requests.push_back(greedy_with_logits(random_prompt(seed, 100, roomy->model->spec().vocab_size), 60));
  }
  const int64_t fixed_bytes = roomy->runtime->budget().used_bytes();
  const auto expected = run_together(*roomy->engine, requests);
  const int64_t page_bytes =
      (roomy->runtime->budget().used_bytes() - fixed_bytes) / roomy->engine->kv_pages().n_pages();
  ASSERT_EQ(roomy->engine->kv_pages().n_pages(), 12) << "four sequences of three pages";

  auto tight =
      LoadedEngine::create(path, {.n_threads = 1, .memory_bytes = fixed_bytes + 5 * page_bytes}, options);
  ASSERT_TRUE(tight) << tight.error().message;
  const auto answers = run_together(*tight->engine, requests);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_TRUE(same_bits(expected[i], answers[i])) << i;
  EXPECT_EQ(tight->engine->kv_pages().n_pages(), 5);

  auto too_small =
      LoadedEngine::create(path, {.n_threads = 1, .memory_bytes = fixed_bytes + 2 * page_bytes}, options);
  ASSERT_TRUE(too_small);
  const auto refused = run_together(*too_small->engine, {requests.front()}).front();
  EXPECT_EQ(refused.reason, FinishReason::kFailed);
  ASSERT_TRUE(refused.error);
  EXPECT_THAT(refused.error->message, testing::HasSubstr("kv pages"));
}

/// A copy of a golden model in which the embedding of one token is not finite.
std::string model_with_bad_token(const std::string& name, int32_t token, const std::string& path) {
  GgufRewrite copy(GoldenCase(name).model_path());
  GgufRewrite::Tensor head = copy.tensor("token_embd.weight");
  head.name = "output.weight";
  const auto& tensors = std::as_const(copy).tensors();
  const bool tied =
      std::none_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == head.name; });
  if (tied) copy.tensors().push_back(head);
  auto& embedding = copy.tensor("token_embd.weight");
  SOLI_CHECK(embedding.type == kGgmlF32);
  const float bad = std::numeric_limits<float>::quiet_NaN();
  const auto row_bytes = static_cast<size_t>(embedding.dims[0]) * sizeof(float);
  std::memcpy(embedding.data.data() + static_cast<size_t>(token) * row_bytes + 4, &bad, sizeof(bad));
  return copy.write(path);
}

TEST(Exactness, ARequestWhoseValuesAreNotFiniteFailsAlone) {
  const TemporaryFolder folder;
  for (const char* name : {"olmoe", "qwen3-dense", "mixtral-small-q8_0"}) {
    for (const ActivationPrecision activations : {ActivationPrecision::kF32, ActivationPrecision::kQ8}) {
      SCOPED_TRACE(name);
      auto loaded = LoadedEngine::create(model_with_bad_token(name, 77, folder / "model.gguf"),
                                         {.n_threads = 2}, {.activations = activations});
      ASSERT_TRUE(loaded) << loaded.error().message;
      const Request good = {.prompt = {1, 2, 3, 4, 5},
                            .max_new_tokens = 1,
                            .sampling = {.temperature = 0},
                            .prompt_detail = Detail::kLogits};
      Request bad = good;
      bad.prompt[2] = 77;
      const Answer alone = run_together(*loaded->engine, {good}).front();
      ASSERT_EQ(alone.reason, FinishReason::kMaxNewTokens);
      const auto answers = run_together(*loaded->engine, {good, bad, good});
      EXPECT_TRUE(same_bits(alone, answers[0]));
      EXPECT_TRUE(same_bits(alone, answers[2]));
      EXPECT_EQ(answers[1].reason, FinishReason::kFailed);
      ASSERT_TRUE(answers[1].error);
      EXPECT_EQ(answers[1].error->message, "the model's values at position 2 are not finite") << "no path";
      // Nor does a failed row harm those that stood before it, then or in later steps.
      bad.prompt[0] = 77;
      const auto others = run_together(*loaded->engine, {good, bad});
      EXPECT_TRUE(same_bits(alone, others[0]));
      EXPECT_EQ(others[1].reason, FinishReason::kFailed);
      EXPECT_TRUE(same_bits(alone, run_together(*loaded->engine, {good}).front()));
    }
  }
}

TEST(Exactness, TheHiddenStatesThatForwardReturnsAreWhatTheHeadMultiplies) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 2});
  ASSERT_TRUE(loaded);
  const Model& model = *loaded->model;
  const SequenceLayout layout = {KvLayout(model.spec(), KvType::kF32), model.rope(64)};
  std::vector<std::byte> page(static_cast<size_t>(layout.kv.page_bytes()));
  std::byte* const pages[] = {page.data()};
  const RoutingPolicy policy;
  Batch batch;
  for (int32_t t = 0; t < 5; ++t) {
    batch.rows.push_back(
        {.position = t, .token = 10 + t, .want_logits = t >= 3, .policy = &policy, .pages = pages});
  }
  OpContext context{loaded->runtime->team(), loaded->runtime->kernels()};
  Workspace workspace = *Workspace::create(model.spec(), loaded->runtime->budget(), {});
  const auto output = forward(model, batch, layout, context, workspace, *loaded->executor, {});
  ASSERT_TRUE(output);
  ASSERT_EQ(output->hidden.rows, 2);
  ASSERT_EQ(output->hidden.cols, model.spec().hidden_size);
  std::vector<float> logits(static_cast<size_t>(2 * model.spec().vocab_size));
  linear(context, model.output(), output->hidden, {logits.data(), 2, model.spec().vocab_size});
  EXPECT_EQ(std::memcmp(logits.data(), output->logits.data, logits.size() * sizeof(float)), 0);
}

/// Does nothing, and counts.
class NoOpHooks : public RouterControl, public RouterObserver {
 public:
  void edit_gate_input(const RouterView&, MatrixView<float> hidden) override { gate_rows += hidden.rows; }
  void edit_logits(const RouterView&, MatrixView<float> logits) override { logit_rows += logits.rows; }
  void edit_choice(const RouterView&, Choice& choice) override { choice_rows += choice.n_rows(); }
  void edit_expert_outputs(const RouterView&, const Choice& choice, MatrixView<float> y) override {
    EXPECT_EQ(choice.n_slots(), y.rows);
    output_rows += choice.n_rows();
  }
  void on_route(const RouterView& view, const Choice&) override {
    seen_rows += static_cast<int64_t>(view.rows.size());
  }

  int64_t gate_rows = 0;
  int64_t logit_rows = 0;
  int64_t choice_rows = 0;
  int64_t output_rows = 0;
  int64_t seen_rows = 0;
};

TEST(Hooks, NoOpHooksLeaveEveryBitAndSeeEveryRowOfEveryLayer) {
  for (const char* name : {"olmoe", "mixtral", "qwen2moe", "qwen3moe"}) {
    SCOPED_TRACE(name);
    const std::string path = GoldenCase(name).model_path();
    auto plain = LoadedEngine::create(path, {.n_threads = 2});
    ASSERT_TRUE(plain);
    const Request request = greedy_with_logits(random_prompt(5, 40, plain->model->spec().vocab_size), 10);
    const Answer expected = run_together(*plain->engine, {request}).front();
    NoOpHooks hooks;
    ASSERT_TRUE(plain->restart({.hooks = {.control = &hooks, .observer = &hooks}}));
    const Answer answer = run_together(*plain->engine, {request}).front();
    EXPECT_TRUE(same_bits(expected, answer));
    const int64_t n = plain->model->spec().n_moe_layers() * (40 + 10 - 1);
    EXPECT_EQ(hooks.gate_rows, n);
    EXPECT_EQ(hooks.logit_rows, n);
    EXPECT_EQ(hooks.choice_rows, n);
    EXPECT_EQ(hooks.output_rows, n);
    EXPECT_EQ(hooks.seen_rows, n);
  }
}

/// Forbids an expert, from the seam.
class MaskExpert : public NoOpHooks {
 public:
  explicit MaskExpert(int64_t expert) : expert_(expert) {}
  void edit_logits(const RouterView&, MatrixView<float> logits) override {
    for (int64_t row = 0; row < logits.rows; ++row) logits.row(row)[expert_] = -1e30F;
  }
  void on_route(const RouterView&, const Choice& choice) override {
    EXPECT_EQ(std::count(choice.ids.begin(), choice.ids.end(), static_cast<int32_t>(expert_)), 0);
  }

 private:
  int64_t expert_;
};

TEST(Hooks, AControlThatMasksAnExpertChangesTheOutput) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 1});
  ASSERT_TRUE(loaded);
  const Request request = greedy_with_logits(random_prompt(5, 40, loaded->model->spec().vocab_size), 4);
  const Answer expected = run_together(*loaded->engine, {request}).front();
  MaskExpert mask(3);
  ASSERT_TRUE(loaded->restart({.hooks = {.control = &mask, .observer = &mask}}));
  EXPECT_FALSE(same_bits(expected, run_together(*loaded->engine, {request}).front()));
}

TEST(Policy, RequestsWithDifferentExpertsPerTokenShareABatch) {
  auto loaded = LoadedEngine::create(GoldenCase("olmoe").model_path(), {.n_threads = 2});
  ASSERT_TRUE(loaded);
  const auto prompt = random_prompt(9, 30, loaded->model->spec().vocab_size);
  std::vector<Request> requests(3, greedy_with_logits(prompt, 8));
  requests[1].policy.experts_per_token = 1;
  requests[2].policy.relative_threshold = 0.5;
  std::vector<Answer> alone;
  for (const Request& request : requests) alone.push_back(run_together(*loaded->engine, {request}).front());
  const auto together = run_together(*loaded->engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_TRUE(same_bits(alone[i], together[i])) << i;
  EXPECT_FALSE(same_bits(alone[0], alone[1]));
  EXPECT_FALSE(same_bits(alone[0], alone[2]));
  EXPECT_NE(requests[0].policy.hash(), requests[1].policy.hash());
}

}  // namespace
}  // namespace soli
