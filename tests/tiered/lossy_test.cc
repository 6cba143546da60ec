// The two lossy ways to read less: a router that prefers what is in memory, and twins of lower precision.
// Both are exact where they have nothing to do, and count what they did where they have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experts/cache_aware_router.h"
#include "experts/tiered_store.h"
#include "model/synth.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::HasSubstr;

constexpr EngineOptions kLossyOptions = {.context_length = 160, .chunk_rows = 64, .max_logit_rows = 64};

class Lossy : public testing::Test {
 protected:
  Lossy() {
    write("model.gguf", kGgmlF32, 5);
    write("twin.gguf", kGgmlQ4_0, 5);
    write("stranger.gguf", kGgmlQ4_0, 6);
    auto resident = LoadedEngine::create(path("model.gguf"), {.n_threads = 2}, kLossyOptions);
    EXPECT_TRUE(resident) << resident.error().message;
    resident_ = std::move(*resident);
  }

  std::string path(const std::string& name) const { return folder_ / name; }

  void write(const std::string& name, uint32_t type, uint64_t seed) const {
    SynthOptions options = synth_preset("tiny").value();
    options.spec.router.n_experts = 16;
    options.spec.n_layers = 3;
    options.seed = seed;
    options.types = SynthOptions::uniform_types(type);
    const auto runtime = std::move(*Runtime::create({.n_threads = 2}));
    const Status written = write_synthetic_model(options, path(name), *runtime, {});
    ASSERT_TRUE(written) << written.error().message;
  }

  Result<LoadedEngine> load(const ModelFile* twins, int64_t per_cent,
                            PrefetchGate::Mode prefetch = PrefetchGate::Mode::kAlways) const {
    const ExpertSource source = std::move(
        *ExpertSource::create(resident_.model->file(), resident_.model->runtime().kernels(), twins));
    const int64_t bytes = std::max(ExpertSlots::least_bytes(source), source.total_bytes() * per_cent / 100);
    return LoadedEngine::create_tiered(path("model.gguf"), {.n_threads = 2}, kLossyOptions,
                                       {.slot_bytes = bytes, .twins = twins, .prefetch = prefetch});
  }

  std::vector<Request> requests() const { return eight_requests(resident_.model->spec().vocab_size); }

  TemporaryFolder folder_;
  LoadedEngine resident_;
};

TEST_F(Lossy, TwinsThatAreNotUsedAreExact) {
  const ModelFile twins = std::move(*ModelFile::open(path("twin.gguf")));
  const auto loaded = load(&twins, 40);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto expected = run_together(*resident_.engine, requests());
  const auto lossy = run_together(*loaded->engine, requests());
  loaded->tiered->set_use_twins(false);
  const auto exact = run_together(*loaded->engine, requests());
  size_t n_different = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(expected[i], exact[i])) << i;
    n_different += same_bits(expected[i], lossy[i]) ? 0 : 1;
  }
  EXPECT_GT(n_different, 0U);
}

TEST_F(Lossy, TwinsAnswerWhatIsNotInMemory) {
  const ModelFile twins = std::move(*ModelFile::open(path("twin.gguf")));
  for (const int64_t per_cent : {0, 10, 40, 90}) {
    for (const auto prefetch : {PrefetchGate::Mode::kOff, PrefetchGate::Mode::kAlways}) {
      SCOPED_TRACE(per_cent);
      const auto loaded = load(&twins, per_cent, prefetch);
      ASSERT_TRUE(loaded) << loaded.error().message;
      const auto answers = run_together(*loaded->engine, requests());
      for (const Answer& answer : answers) {
        ASSERT_FALSE(answer.error) << answer.error->message;
        for (const auto& logits : answer.logits) {
          for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
        }
      }
      const CacheCounters counters = sum(loaded->tiered->counters());
      EXPECT_GT(counters.twin_uses, 0);
      EXPECT_LE(counters.twin_uses, counters.calls());
    }
  }
}

TEST_F(Lossy, WhatIsCalledMuchComesItself) {
  const ModelFile twins = std::move(*ModelFile::open(path("twin.gguf")));
  const auto loaded = load(&twins, 60, PrefetchGate::Mode::kOff);
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (int i = 0; i < 4; ++i) run_together(*loaded->engine, requests());
  const CacheCounters counters = sum(loaded->tiered->counters());
  EXPECT_GT(counters.promoted_bytes, 0);
  EXPECT_LT(counters.twin_uses, counters.calls());
}

TEST_F(Lossy, OtherModelsAreNoTwins) {
  const ModelFile stranger = std::move(*ModelFile::open(path("stranger.gguf")));
  const auto loaded = load(&stranger, 40);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(loaded.error().message, HasSubstr("not this model's"));
  const ModelFile& same = resident_.model->file();
  const auto& kernels = resident_.model->runtime().kernels();
  const auto no_smaller = ExpertSource::create(same, kernels, &same);
  ASSERT_FALSE(no_smaller);
  EXPECT_THAT(no_smaller.error().message, HasSubstr("no smaller"));
  const ModelFile other = std::move(*ModelFile::open(GoldenCase("qwen3moe").model_path()));
  const auto other_sizes = ExpertSource::create(same, kernels, &other);
  ASSERT_FALSE(other_sizes);
  EXPECT_THAT(other_sizes.error().message, HasSubstr("is not a twin of"));
}

TEST_F(Lossy, ARouterThatPrefersNothingIsExact) {
  const auto loaded = load(nullptr, 30);
  CacheAwareRouter router(*loaded->model, *loaded->tiered, 1);
  loaded->executor->set_control(&router);
  const auto expected = run_together(*resident_.engine, requests());
  const auto answers = run_together(*loaded->engine, requests());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(expected[i], answers[i])) << i;
  EXPECT_GT(router.n_calls(), 0);
  EXPECT_EQ(router.n_moved(), 0);
}

TEST_F(Lossy, ARouterThatPrefersExpertsInMemoryReadsLess) {
  const auto one_by_one = [&](float preference) {
    const auto loaded = load(nullptr, 30, PrefetchGate::Mode::kOff);
    CacheAwareRouter router(*loaded->model, *loaded->tiered, preference);
    loaded->executor->set_control(&router);
    for (const Request& request : requests()) run_together(*loaded->engine, {request});
    EXPECT_EQ(router.n_moved() > 0, preference > 1);
    return sum(loaded->tiered->counters());
  };
  EXPECT_LT(one_by_one(4).demand_misses, one_by_one(1).demand_misses);
}

TEST_F(Lossy, WithEverythingInMemoryTheRouterIsExact) {
  const auto loaded = load(nullptr, 200);
  ASSERT_TRUE(loaded->tiered->warm_up(
      [&] {
        std::vector<ExpertNumber> all;
        for (ExpertNumber e = 0; e < loaded->tiered->source().size(); ++e) all.push_back(e);
        return all;
      }(),
      {}));
  CacheAwareRouter router(*loaded->model, *loaded->tiered, 16);
  loaded->executor->set_control(&router);
  const auto expected = run_together(*resident_.engine, requests());
  const auto answers = run_together(*loaded->engine, requests());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same_bits(expected[i], answers[i])) << i;
}

}  // namespace
}  // namespace soli
