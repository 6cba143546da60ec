// Decoding allocates nothing once it is warm: every operator new of this program is counted, on all threads.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "model/step_probe.h"
#include "support/loaded_engine.h"

namespace {

std::atomic<int64_t> n_allocations{0};

void* allocate(size_t bytes, size_t alignment) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

// The array forms call these. Not inlined, or the compiler sees free() meet memory from operator new.
[[gnu::noinline]] void* operator new(size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace soli {
namespace {

/// Counts the allocations of forwards by phase: from a step's batch to the end of its output head.
class AllocationProbe final : public StepProbe {
 public:
  void begin_step() override {}
  void on_batch(const Batch&) override { start(Phase::kOther); }
  void enter(Phase phase) override {
    in_phase[static_cast<size_t>(phase_)] += n_allocations.load() - before_;
    start(phase);
    if (phase == Phase::kOther) ++n_forwards;
  }
  void on_experts(int64_t, const RowsByExpert&) override {}
  void end_step() override {}

  std::array<int64_t, kPhases> in_phase = {};
  int64_t n_forwards = 0;

 private:
  void start(Phase phase) {
    phase_ = phase;
    before_ = n_allocations.load();
  }

  Phase phase_ = Phase::kOther;
  int64_t before_ = 0;
};

struct Case {
  const char* model;
  ActivationPrecision activations;
};

class Decoding : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, Decoding,
                         testing::Values(Case{"qwen3moe-big-q4_k", ActivationPrecision::kQ8},
                                         Case{"qwen3moe-big-q4_k", ActivationPrecision::kF32},
                                         Case{"mixtral", ActivationPrecision::kQ8},
                                         Case{"qwen2moe", ActivationPrecision::kQ8},
                                         Case{"qwen3-dense", ActivationPrecision::kQ8}));

TEST_P(Decoding, AllocatesNothingInTheForwardOnceItIsWarm) {
  AllocationProbe probe;
  auto loaded = LoadedEngine::create(GoldenCase(GetParam().model).model_path(), {.n_threads = 2},
                                     {.activations = GetParam().activations, .hooks = {.probe = &probe}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  std::vector<std::shared_ptr<Stream>> streams;
  for (uint64_t i = 0; i < 3; ++i) {
    const auto vocab_size = loaded->model->spec().vocab_size;
    streams.push_back(*loaded->engine->submit(
        {.prompt = random_prompt(i, 5, vocab_size), .max_new_tokens = -1, .sampling = {.temperature = 0}}));
  }
  Answer ignored;
  const auto steps = [&](int n) {
    for (int i = 0; i < n; ++i) {
      ASSERT_TRUE(loaded->engine->step());
      for (const auto& stream : streams) ASSERT_FALSE(drain(*stream, ignored));
    }
  };
  steps(10);
  probe = AllocationProbe();
  steps(80);  // across the end of a KV page
  EXPECT_EQ(probe.n_forwards, 80);
  for (const Phase phase :
       {Phase::kAttention, Phase::kRouter, Phase::kExperts, Phase::kHead, Phase::kOther}) {
    EXPECT_EQ(probe.in_phase[static_cast<size_t>(phase)], 0) << name_of(phase) << " of 80 forwards";
  }
}

}  // namespace
}  // namespace soli
