// Models of which only some experts are in memory: the same bits as with all of them, whatever the number of
// slots, the policy, the prefetching and the batch.

#include "experts/tiered_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/loaded_engine.h"

namespace soli {
namespace {

constexpr EngineOptions kTieredOptions = {
    .context_length = 320, .chunk_rows = 128, .max_logit_rows = 128, .activations = ActivationPrecision::kQ8};

int64_t bytes_for(const ExpertSource& source, int64_t per_cent) {
  return std::max(ExpertSlots::least_bytes(source), source.total_bytes() * per_cent / 100);
}

ExpertSource source_of(const Model& model) {
  return std::move(*ExpertSource::create(model.file(), model.runtime().kernels()));
}

/// Several prompts, 256 tokens each with what follows.
std::vector<Request> long_requests(int64_t vocab_size) {
  std::vector<Request> requests;
  for (const size_t n : {3, 70, 200})
    requests.push_back(greedy_with_logits(random_prompt(n, n, vocab_size), 256 - static_cast<int64_t>(n)));
  return requests;
}

class TieredModels : public testing::TestWithParam<const char*> {
 protected:
  TieredModels() : path_(GoldenCase(GetParam()).model_path()) {
    auto loaded = LoadedEngine::create(path_, {.n_threads = 2}, kTieredOptions);
    EXPECT_TRUE(loaded) << loaded.error().message;
    resident_ = std::move(*loaded);
  }

  LoadedEngine tiered(const TieredExpertStore::Options& tiers, int64_t n_ahead) const {
    auto loaded = LoadedEngine::create_tiered(path_, {.n_threads = 2}, kTieredOptions, tiers, n_ahead);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return std::move(*loaded);
  }

  const std::string path_;
  LoadedEngine resident_;
};

TEST_P(TieredModels, GiveTheSameBitsWithAnyNumberOfSlots) {
  const int64_t vocab_size = resident_.model->spec().vocab_size;
  const ExpertSource source = source_of(*resident_.model);
  std::vector<std::vector<Answer>> expected;
  for (const Request& request : long_requests(vocab_size))
    expected.push_back(run_together(*resident_.engine, {request}));
  expected.push_back(run_together(*resident_.engine, eight_requests(vocab_size)));

  int n_ahead = 0;
  for (const int64_t per_cent : {0, 20, 50, 80, 200}) {
    SCOPED_TRACE(per_cent);
    const LoadedEngine loaded =
        tiered({.slot_bytes = bytes_for(source, per_cent), .prefetch = PrefetchGate::Mode::kAlways}, n_ahead);
    n_ahead = (n_ahead + 1) % 3;
    std::vector<std::vector<Answer>> answers;
    for (const Request& request : long_requests(vocab_size))
      answers.push_back(run_together(*loaded.engine, {request}));
    answers.push_back(run_together(*loaded.engine, eight_requests(vocab_size)));
    for (size_t i = 0; i < expected.size(); ++i) {
      for (size_t r = 0; r < expected[i].size(); ++r)
        EXPECT_TRUE(same_bits(expected[i][r], answers[i][r])) << i << ", " << r;
    }
    const CacheCounters counters = sum(loaded.tiered->counters());
    EXPECT_GT(counters.calls(), 0);
    if (per_cent >= 200) {
      EXPECT_LE(counters.demand_misses, source.size()) << "each is read once";
    }
    EXPECT_LE(loaded.tiered->slots().n_ready(), loaded.tiered->slots().total_capacity());
  }
}

TEST_P(TieredModels, GiveTheSameBitsUnderEveryPolicy) {
  const ExpertSource source = source_of(*resident_.model);
  const auto requests = eight_requests(resident_.model->spec().vocab_size);
  const auto expected = run_together(*resident_.engine, requests);
  for (const CachePolicyKind policy : {CachePolicyKind::kAuto, CachePolicyKind::kLru, CachePolicyKind::kLfu,
                                       CachePolicyKind::kLeastStale, CachePolicyKind::kShares}) {
    for (const PrefetchGate::Mode prefetch :
         {PrefetchGate::Mode::kOff, PrefetchGate::Mode::kAuto, PrefetchGate::Mode::kAlways}) {
      const LoadedEngine loaded =
          tiered({.slot_bytes = bytes_for(source, 40), .policy = policy, .prefetch = prefetch}, 2);
      const auto answers = run_together(*loaded.engine, requests);
      for (size_t r = 0; r < expected.size(); ++r) EXPECT_TRUE(same_bits(expected[r], answers[r])) << r;
    }
  }
}

TEST_P(TieredModels, CountWhatTheyDo) {
  const ExpertSource source = source_of(*resident_.model);
  const LoadedEngine loaded =
      tiered({.slot_bytes = bytes_for(source, 40), .prefetch = PrefetchGate::Mode::kAlways}, 1);
  run_together(*loaded.engine, eight_requests(resident_.model->spec().vocab_size));
  run_together(*resident_.engine, eight_requests(resident_.model->spec().vocab_size));
  int64_t n_reads = 0;
  int64_t n_expected = 0;
  for (int64_t layer = 0; layer < resident_.model->spec().n_layers; ++layer) {
    const CacheCounters counters = loaded.tiered->counters()[static_cast<size_t>(layer)];
    int64_t n_layer = 0;
    for (int64_t e = 0; e < source.n_experts(); ++e) {
      n_layer += loaded.store->reads(layer, e);
      n_expected += resident_.store->reads(layer, e);
    }
    n_reads += n_layer;
    EXPECT_EQ(counters.calls(), n_layer) << "layer " << layer;
    EXPECT_LE(counters.prefetch_hits, counters.hits);
    EXPECT_LE(counters.predicted_called, counters.predicted);
    EXPECT_GE(counters.demanded_bytes, 0);
    EXPECT_GE(counters.wasted_bytes, 0);
  }
  EXPECT_EQ(n_reads, n_expected) << "every distinct expert of a step once";
  const CacheCounters total = sum(loaded.tiered->counters());
  EXPECT_GT(total.demand_misses, 0);
  EXPECT_GT(total.bytes_read(), 0);
}

/// Counts what the router chose.
class RoutedCalls final : public RouterObserver {
 public:
  void on_route(const RouterView& view, const Choice& choice) override {
    for (const int32_t expert : choice.ids) ++calls_[{view.layer, expert}];
  }
  int64_t of(int64_t layer, int64_t expert) const {
    const auto found = calls_.find({layer, expert});
    return found == calls_.end() ? 0 : found->second;
  }

 private:
  std::map<std::pair<int64_t, int64_t>, int64_t> calls_;  // (layer, expert)
};

/// Ticks when it is read.
std::atomic<int64_t> tiered_ticks{0};
int64_t next_tiered_tick() { return tiered_ticks.fetch_add(1); }

TEST_P(TieredModels, AreMeteredByWhatTheRouterChose) {
  const ModelSpec& spec = resident_.model->spec();
  LoadedEngine loaded = tiered({.slot_bytes = bytes_for(source_of(*resident_.model), 40)}, 1);
  const auto requests = eight_requests(spec.vocab_size);
  const auto expected = run_together(*resident_.engine, requests);
  for (const LoadedEngine* const engine : {&resident_, &loaded}) {
    RoutedCalls routed;
    ExpertMeter meter(spec.n_layers, spec.router.n_experts, &next_tiered_tick);
    engine->engine->set_hooks({.observer = &routed});
    engine->executor->set_meter(&meter);
    const auto answers = run_together(*engine->engine, requests);
    engine->engine->set_hooks({});
    engine->executor->set_meter(nullptr);
    for (size_t r = 0; r < expected.size(); ++r) EXPECT_TRUE(same_bits(expected[r], answers[r])) << r;
    int64_t n_calls = 0;
    for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
      for (int64_t e = 0; e < spec.router.n_experts; ++e) {
        const ExpertWork work = meter.read(layer, e);
        EXPECT_EQ(work.calls, routed.of(layer, e)) << "layer " << layer << ", expert " << e;
        EXPECT_EQ(work.busy_ns > 0, work.calls > 0) << "layer " << layer << ", expert " << e;
        n_calls += work.calls;
      }
    }
    EXPECT_GT(n_calls, 0);
  }
}

TEST_P(TieredModels, ReadEachExpertOncePerChunk) {
  const ExpertSource source = source_of(*resident_.model);
  const LoadedEngine loaded =
      tiered({.slot_bytes = bytes_for(source, 0), .prefetch = PrefetchGate::Mode::kOff}, 0);
  Request request = greedy_with_logits(random_prompt(1, 100, resident_.model->spec().vocab_size), 0);
  run_together(*loaded.engine, {request});
  int64_t n_bytes = 0;
  for (int64_t layer = 0; layer < resident_.model->spec().n_layers; ++layer) {
    if (source.moe_layer(layer) < 0) continue;
    for (int64_t e = 0; e < source.n_experts(); ++e) {
      const auto number = static_cast<ExpertNumber>(source.moe_layer(layer) * source.n_experts() + e);
      EXPECT_LE(loaded.store->reads(layer, e), 1);
      for (const ExpertRead& read : source.reads_of(number))
        n_bytes += loaded.store->reads(layer, e) * read.bytes;
    }
  }
  EXPECT_EQ(sum(loaded.tiered->counters()).bytes_read(), n_bytes);
}

INSTANTIATE_TEST_SUITE_P(Goldens, TieredModels,
                         testing::Values("olmoe", "mixtral-split", "deepseek2-lite", "gpt-oss-small-gptoss",
                                         "qwen3moe-mix-q4_k_m"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Field report 17: what a step still needs must not leave.
TEST(TieredStore, FourSlotsServeABatchThatNeedsSix) {
  const std::string path = GoldenCase("olmoe").model_path();
  auto resident = LoadedEngine::create(path, {.n_threads = 1}, kTieredOptions);
  ASSERT_TRUE(resident);
  const ExpertSource source = source_of(*resident->model);
  ASSERT_EQ(source.forms().size(), 1U);
  const auto requests = eight_requests(resident->model->spec().vocab_size);
  const auto expected = run_together(*resident->engine, requests);
  for (int64_t n_slots = 1; n_slots <= 8; ++n_slots) {
    const int64_t bytes = ExpertSlots::charged_bytes(source, std::vector<int64_t>{n_slots});
    auto loaded = LoadedEngine::create_tiered(path, {.n_threads = 1}, kTieredOptions, {.slot_bytes = bytes});
    ASSERT_TRUE(loaded) << loaded.error().message;
    ASSERT_EQ(loaded->tiered->slots().total_capacity(), n_slots);
    const auto answers = run_together(*loaded->engine, requests);
    for (size_t r = 0; r < expected.size(); ++r) EXPECT_TRUE(same_bits(expected[r], answers[r])) << r;
  }
}

TEST(TieredStore, WarmsUpWithTheFirstThatFit) {
  const std::string path = GoldenCase("olmoe").model_path();
  auto probe = LoadedEngine::create(path, {.n_threads = 1}, kTieredOptions);
  const ExpertSource source = source_of(*probe->model);
  auto loaded = LoadedEngine::create_tiered(path, {.n_threads = 2}, kTieredOptions,
                                            {.slot_bytes = bytes_for(source, 60)});
  ASSERT_TRUE(loaded);
  std::vector<ExpertNumber> hottest;
  for (int64_t e = source.size(); e-- > 0;) hottest.push_back(static_cast<ExpertNumber>(e));
  int64_t n_told = 0;
  const auto n = loaded->tiered->warm_up(hottest, [&](int64_t done, int64_t total) {
    n_told = done;
    EXPECT_LE(done, total);
  });
  ASSERT_TRUE(n) << n.error().message;
  EXPECT_EQ(*n, loaded->tiered->slots().total_capacity());
  EXPECT_EQ(n_told, *n * source.forms()[0].bytes);
  EXPECT_GE(loaded->tiered->slots().find(hottest.front()), 0);
  EXPECT_LT(loaded->tiered->slots().find(hottest.back()), 0);
  EXPECT_EQ(sum(loaded->tiered->counters()).bytes_read(), 0) << "no turn's";
  const auto requests = eight_requests(probe->model->spec().vocab_size);
  const auto expected = run_together(*probe->engine, requests);
  const auto answers = run_together(*loaded->engine, requests);
  for (size_t r = 0; r < expected.size(); ++r) EXPECT_TRUE(same_bits(expected[r], answers[r])) << r;
}

}  // namespace
}  // namespace soli
