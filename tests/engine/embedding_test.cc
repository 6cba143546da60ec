// One vector for a prompt: the final hidden states, pooled. Equal alone and in a batch, chunked or not, after
// pages were taken away.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/forward.h"
#include "support/loaded_engine.h"

namespace soli {
namespace {

LoadedEngine load(const EngineOptions& options, const char* model = "olmoe") {
  auto loaded = LoadedEngine::create(GoldenCase(model).model_path(), {.n_threads = 1}, options);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return std::move(*loaded);
}

Request embedding_of(std::vector<int32_t> prompt, Task task) {
  Request request;
  request.prompt = std::move(prompt);
  request.task = task;
  return request;
}

struct Embedded {
  std::vector<float> vector;
  RequestSummary summary;
};

std::vector<Embedded> run(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& request : requests) streams.push_back(engine.submit(request).value());
  while (engine.step()) {
  }
  std::vector<Embedded> results;
  for (const auto& stream : streams) {
    Embedded result;
    const StreamEvent first = stream->pop();
    EXPECT_EQ(first.kind, StreamEvent::Kind::kEmbedding);
    result.vector = first.embedding;
    const StreamEvent last = stream->pop();
    EXPECT_EQ(last.kind, StreamEvent::Kind::kFinished);
    EXPECT_EQ(last.reason, FinishReason::kMaxNewTokens);
    result.summary = last.summary;
    results.push_back(result);
  }
  return results;
}

/// The final hidden states of all tokens, from one forward of its own.
std::vector<std::vector<float>> hidden_states(LoadedEngine& loaded, const std::vector<int32_t>& prompt) {
  const Model& model = *loaded.model;
  const SequenceLayout layout = {KvLayout(model.spec(), KvType::kF16), model.rope(256)};
  std::vector<std::vector<std::byte>> memory(
      4, std::vector<std::byte>(static_cast<size_t>(layout.kv.page_bytes())));
  std::vector<std::byte*> pages;
  for (auto& page : memory) pages.push_back(page.data());
  const RoutingPolicy policy;
  Batch batch;
  for (size_t t = 0; t < prompt.size(); ++t) {
    batch.rows.push_back({.position = static_cast<int64_t>(t),
                          .token = prompt[t],
                          .want_logits = t % 2 == 0,
                          .want_hidden = t % 2 == 1,
                          .policy = &policy,
                          .pages = pages});
  }
  OpContext context{loaded.runtime->team(), loaded.runtime->kernels(), ActivationPrecision::kQ8};
  Workspace workspace = *Workspace::create(model.spec(), loaded.runtime->budget(), {});
  const auto output = forward(model, batch, layout, context, workspace, *loaded.executor, {});
  std::vector<std::vector<float>> rows;
  for (size_t t = 0; t < prompt.size(); ++t) {
    const auto& from = t % 2 == 0 ? output->hidden : output->only_hidden;
    const float* const row = from.row(static_cast<int64_t>(t / 2));
    rows.emplace_back(row, row + from.cols);
  }
  return rows;
}

TEST(Embedding, IsTheMeanOrTheLastOfTheFinalHiddenStates) {
  for (const char* model : {"olmoe", "llama-dense"}) {
    LoadedEngine loaded = load({.context_length = 256}, model);
    const auto prompt = random_prompt(1, 100, loaded.model->spec().vocab_size);
    const auto rows = hidden_states(loaded, prompt);
    const auto results =
        run(*loaded.engine, {embedding_of(prompt, Task::kEmbedMean), embedding_of(prompt, Task::kEmbedLast)});
    EXPECT_EQ(results[1].vector, rows.back());
    ASSERT_EQ(results[0].vector.size(), rows.back().size());
    for (size_t i = 0; i < rows.back().size(); ++i) {
      double sum = 0;
      for (const auto& row : rows) sum += static_cast<double>(row[i]);
      EXPECT_EQ(results[0].vector[i], static_cast<float>(sum / 100));
    }
  }
}

TEST(Embedding, IsTheSameInAnyBatchAndChunkAndWithPagesTakenAway) {
  LoadedEngine alone = load({.context_length = 256});
  LoadedEngine crowded = load({.context_length = 256,
                               .chunk_rows = 23,
                               .max_logit_rows = 2,
                               .max_kv_pages = 5,
                               .prefix_cache = true,
                               .keep_routing = true});
  std::vector<Request> requests;
  for (const uint64_t i : {0, 1, 1, 0, 1, 0}) {
    requests.push_back(
        embedding_of(random_prompt(i, 150, 280), i == 0 ? Task::kEmbedMean : Task::kEmbedLast));
  }
  const auto generates =
      crowded.engine
          ->submit(
              {.prompt = random_prompt(1, 100, 280), .max_new_tokens = 50, .sampling = {.temperature = 0}})
          .value();
  const auto results = run(*crowded.engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(results[i].vector, run(*alone.engine, {requests[i]}).front().vector) << i;
  }
  EXPECT_EQ(results[3].summary.n_cached, 0) << "a mean needs every token";
  EXPECT_GT(results[4].summary.n_cached, 0);
  EXPECT_EQ(crowded.engine->counters().generated_tokens, 50);
}

TEST(Embedding, HasNoLogits) {
  LoadedEngine loaded = load({});
  Request request = embedding_of({1, 2}, Task::kEmbedLast);
  request.prompt_detail = Detail::kLogits;
  const auto refused = loaded.engine->submit(request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("embedding"));
}

}  // namespace
}  // namespace soli
