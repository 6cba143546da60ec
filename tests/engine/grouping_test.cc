// Requests that wait are grouped by what their tokens called before: the same answers, fewer distinct
// experts, and nobody waits for ever.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "engine/token_experts.h"
#include "format/tokenizer.h"
#include "support/loaded_engine.h"

namespace soli {
namespace {

std::string demo_path() { return std::string(SOLI_SOURCE_DIR) + "/models/demo/soli-demo-16x2-q8_0.gguf"; }

/// Pieces of texts of two domains, in turn.
std::vector<Request> two_kinds(int64_t n) {
  const auto file = ModelFile::open(demo_path());
  const auto tokenizer = Tokenizer::from_gguf(file->gguf()).value();
  std::vector<std::vector<int32_t>> texts;
  for (const char* name : {"code_python", "prose_en"}) {
    std::ifstream text(std::string(SOLI_TEST_DATA) + "/data/" + name + ".txt");
    texts.push_back(tokenizer->encode(std::string(std::istreambuf_iterator<char>(text), {}), {}).value());
  }
  constexpr int64_t kTokens = 24;
  std::vector<Request> requests;
  for (int64_t i = 0; i < n; ++i) {
    const auto begin = texts[static_cast<size_t>(i % 2)].begin() + i / 2 * kTokens;
    requests.push_back(
        {.prompt = {begin, begin + kTokens}, .max_new_tokens = 8, .sampling = {.temperature = 0}});
  }
  return requests;
}

int64_t distinct_experts(const LoadedEngine& loaded) {
  int64_t n = 0;
  for (int64_t layer = 0; layer < loaded.model->spec().n_layers; ++layer) {
    for (int64_t e = 0; e < loaded.model->spec().router.n_experts; ++e) n += loaded.store->reads(layer, e);
  }
  return n;
}

LoadedEngine load(bool group) {
  auto loaded = LoadedEngine::create(demo_path(), {.n_threads = 2},
                                     {.context_length = 64, .max_sequences = 4, .group_requests = group});
  EXPECT_TRUE(loaded) << loaded.error().message;
  return std::move(*loaded);
}

TEST(Grouping, GivesTheSameAnswersWithFewerDistinctExperts) {
  const LoadedEngine in_order = load(false);
  const LoadedEngine grouped = load(true);
  const auto requests = two_kinds(64);
  for (int round = 0; round < 2; ++round) {  // the first one learns
    const int64_t before_in_order = distinct_experts(in_order);
    const int64_t before_grouped = distinct_experts(grouped);
    const auto expected = run_together(*in_order.engine, requests);
    const auto answers = run_together(*grouped.engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(expected[i].tokens, answers[i].tokens) << i;
    if (round == 0) continue;
    const auto n_in_order = static_cast<double>(distinct_experts(in_order) - before_in_order);
    const auto n_grouped = static_cast<double>(distinct_experts(grouped) - before_grouped);
    EXPECT_LT(n_grouped, 0.97 * n_in_order) << n_grouped << " instead of " << n_in_order;
  }
}

TEST(Grouping, AnOldRequestIsPassedOverOnlySoOften) {
  const LoadedEngine loaded = load(true);
  run_together(*loaded.engine, two_kinds(16));
  // One of the other kind, and then many that are alike.
  auto requests = two_kinds(121);
  std::vector<Request> alike;
  for (size_t i = 0; i < requests.size(); i += 2) alike.push_back(requests[i]);
  alike.insert(alike.begin() + 4, requests[1]);
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& request : alike) streams.push_back(loaded.engine->submit(request).value());
  size_t n_ended = 0;
  std::map<size_t, size_t> ended;  // request, how many ended before it
  while (n_ended < alike.size()) {
    loaded.engine->step();
    for (size_t i = 0; i < alike.size(); ++i) {
      Answer answer;
      if (ended.count(i) == 0 && drain(*streams[i], answer)) ended[i] = n_ended++;
    }
  }
  EXPECT_LE(ended[4], 4U + 16U + 4U);
}

TEST(TokenExperts, LearnsWhatTokensCall) {
  const LoadedEngine loaded = load(false);
  auto learned = TokenExperts::create(loaded.model->spec(), loaded.runtime->budget());
  ASSERT_TRUE(learned);
  EXPECT_TRUE(learned->profile_of(std::vector<int32_t>{1, 2, 3}).empty());
  EXPECT_TRUE(learned->profile_of({}).empty());
  loaded.engine->set_hooks({.observer = &*learned});
  const auto requests = two_kinds(12);
  run_together(*loaded.engine, requests);
  const auto first = learned->profile_of(requests[0].prompt);
  const auto same_kind = learned->profile_of(requests[2].prompt);
  const auto other_kind = learned->profile_of(requests[1].prompt);
  double sum = 0;
  for (const float share : first) sum += static_cast<double>(share);
  EXPECT_NEAR(sum, 4, 1e-4) << "one for each layer";
  EXPECT_GT(likeness(first, same_kind), likeness(first, other_kind));
  // Counts fade, and never wrap.
  for (int i = 0; i < 30; ++i) run_together(*loaded.engine, requests);
  EXPECT_GT(likeness(learned->profile_of(requests[0].prompt), same_kind), 3.0);
}

}  // namespace
}  // namespace soli
