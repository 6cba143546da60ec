// The probe on a real engine: whole steps, and the work that the engine and the store counted themselves.

#include <gtest/gtest.h>

#include "observe/phase_probe.h"
#include "support/loaded_engine.h"

namespace soli {
namespace {

/// Bytes of the routed experts that the store has given.
int64_t bytes_read(const LoadedEngine& loaded, const StepWork& work) {
  const ModelSpec& spec = loaded.model->spec();
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    for (int64_t e = 0; e < spec.router.n_experts; ++e) {
      bytes += loaded.store->reads(layer, e) * work.expert_bytes(layer, e);
    }
  }
  return bytes;
}

TEST(Probe, CountsWhatTheEngineDidAndChangesNothing) {
  for (const char* name : {"mixtral", "qwen2moe", "olmoe", "qwen3-dense"}) {
    auto loaded = LoadedEngine::create(GoldenCase(name).model_path(), {.n_threads = 2});
    ASSERT_TRUE(loaded) << loaded.error().message;
    const ModelSpec& spec = loaded->model->spec();
    std::vector<Request> requests = eight_requests(spec.vocab_size);
    for (Request& request : requests) request.generated_detail = request.prompt_detail = Detail::kNone;
    const std::vector<Answer> expected = run_together(*loaded->engine, requests);
    ASSERT_TRUE(loaded->restart({}));

    const StepWork work(loaded->model->file(), loaded->runtime->kernels(), ActivationPrecision::kQ8,
                        KvType::kF16);
    int64_t now = 0;
    PhaseProbe probe(work, [&] { return now++; });
    loaded->engine->set_hooks({.probe = &probe});
    const int64_t read_before = bytes_read(*loaded, work);
    const std::vector<Answer> answers = run_together(*loaded->engine, requests);
    for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].tokens, expected[i].tokens) << name;

    const PhaseTotals totals = probe.take();
    const EngineCounters& counters = loaded->engine->counters();
    EXPECT_EQ(totals.n_steps, counters.steps);
    const auto in = [&](Phase phase) { return totals.ns[static_cast<size_t>(phase)]; };
    // This clock ticks when it is read, so a phase has as many ticks as it has beginnings, and the planning
    // of a step one.
    EXPECT_EQ(in(Phase::kAttention), totals.n_steps * spec.n_layers) << name;
    EXPECT_EQ(in(Phase::kRouter), totals.n_steps * spec.n_moe_layers()) << name;
    EXPECT_EQ(in(Phase::kExperts), totals.n_steps * spec.n_layers) << name;
    EXPECT_EQ(in(Phase::kHead), totals.n_steps) << name;
    EXPECT_EQ(in(Phase::kOther), 2 * totals.n_steps) << name;

    const int64_t n_rows = counters.prompt_rows + counters.decode_rows;
    const int64_t n_drawn = 8 * 6;
    EXPECT_EQ(sum(totals.work).all_operations() - sum(totals.work).kv_operations,
              work.weight_operations(n_rows, n_drawn))
        << name;
    WorkByPhase shared = {};
    for (int64_t step = 0; step < totals.n_steps; ++step) work.add_rows({.n_rows = 1, .n_wanted = 1}, shared);
    const int64_t embedding_row = loaded->model->file().gguf().find_tensor("token_embd.weight")->row_bytes();
    EXPECT_EQ(sum(totals.work).weight_bytes, sum(shared).weight_bytes +
                                                 (n_rows - totals.n_steps) * embedding_row +
                                                 bytes_read(*loaded, work) - read_before)
        << name;
  }
}

}  // namespace
}  // namespace soli
