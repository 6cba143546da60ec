#include "observe/phase_probe.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/runtime.h"
#include "support/loaded_engine.h"

namespace soli {
namespace {

Work& of(WorkByPhase& work, Phase phase) { return work[static_cast<size_t>(phase)]; }

/// The work of a golden model's steps, and its file, in whose names of tensors the phases can be seen.
struct Counted {
  explicit Counted(const char* name, ActivationPrecision activations = ActivationPrecision::kQ8)
      : file(ModelFile::open(GoldenCase(name).model_path()).value()),
        work(file, *kernels::select_kernels("").value(), activations, KvType::kF16) {}

  int64_t bytes_of(const std::vector<std::string>& parts) const {
    int64_t bytes = 0;
    for (const GgufTensor& tensor : file.gguf().tensors())
      bytes += is_one_of(tensor, parts) ? tensor.bytes : 0;
    return bytes;
  }
  int64_t matrix_elements_of(const std::vector<std::string>& parts) const {
    int64_t elements = 0;
    for (const GgufTensor& tensor : file.gguf().tensors()) {
      if (is_one_of(tensor, parts) && tensor.n_dims > 1) elements += tensor.elements();
    }
    return elements;
  }
  static bool is_one_of(const GgufTensor& tensor, const std::vector<std::string>& parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const std::string& part) { return tensor.name.find(part) != std::string::npos; });
  }

  ModelFile file;
  StepWork work;
};

TEST(StepRows, CountsPositionsOfEachSequenceOnceAndWhatRowsSee) {
  Batch batch;
  for (const auto& [request, position] :
       std::vector<std::pair<RequestId, int64_t>>{{1, 9}, {2, 0}, {2, 1}, {2, 2}}) {
    BatchRow row;
    row.request = request;
    row.position = position;
    row.want_logits = position != 0 && position != 1;
    batch.rows.push_back(row);
  }
  ModelSpec spec;
  spec.n_layers = 3;
  const StepRows counted = count_rows(spec, batch);
  EXPECT_EQ(counted.n_rows, 4);
  EXPECT_EQ(counted.n_wanted, 2);
  EXPECT_EQ(counted.n_positions, 3 * (10 + 3));
  EXPECT_EQ(counted.n_attended, 3 * (10 + 1 + 2 + 3));
  spec.sliding_window = 2;
  spec.window_period = 2;  // layers 0 and 2
  const StepRows windowed = count_rows(spec, batch);
  EXPECT_EQ(windowed.n_positions, 10 + 3 + 2 * (2 + 3));  // three rows see what two more than one do
  EXPECT_EQ(windowed.n_attended, 10 + 1 + 2 + 3 + 2 * (2 + 1 + 2 + 2));
}

TEST(StepWork, EveryTensorBelongsToOnePhase) {
  const std::vector<std::string> head = {"output.weight", "output_norm"};
  const std::vector<std::string> attention = {"attn", "ffn_norm"};
  const std::vector<std::string> router = {"ffn_gate_inp.weight"};
  for (const char* name : {"qwen2moe", "mixtral", "olmoe", "qwen3-dense", "qwen3moe-mix-q4_k_m"}) {
    const Counted model(name);
    if (model.file.output_is_tied()) continue;
    WorkByPhase work = {};
    model.work.add_rows({.n_rows = 3, .n_wanted = 2}, work);
    EXPECT_EQ(of(work, Phase::kHead).weight_bytes, model.bytes_of(head) - model.bytes_of({"attn_output"}))
        << name;
    EXPECT_EQ(of(work, Phase::kHead).all_operations(),
              2 * 2 * (model.matrix_elements_of(head) - model.matrix_elements_of({"attn_output"})))
        << name;
    EXPECT_EQ(of(work, Phase::kAttention).weight_bytes, model.bytes_of(attention)) << name;
    EXPECT_EQ(of(work, Phase::kAttention).all_operations(), 3 * 2 * model.matrix_elements_of(attention))
        << name;
    EXPECT_EQ(of(work, Phase::kRouter).weight_bytes, model.bytes_of(router)) << name;
    const GgufTensor& embedding = *model.file.gguf().find_tensor("token_embd.weight");
    EXPECT_EQ(of(work, Phase::kOther).weight_bytes, 3 * embedding.row_bytes()) << name;
    EXPECT_EQ(of(work, Phase::kOther).all_operations(), 0) << name;
    // What is left are feed-forwards.
    const ModelSpec& spec = model.file.spec();
    for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
      for (int64_t e = 0; e < spec.router.n_experts; ++e) model.work.add_expert(layer, e, 1, work);
    }
    EXPECT_EQ(sum(work).weight_bytes,
              model.file.gguf().tensor_bytes() - embedding.bytes + 3 * embedding.row_bytes())
        << name;
  }
}

TEST(StepWork, ATiedHeadReadsTheEmbedding) {
  const Counted model("qwen2-dense");
  ASSERT_TRUE(model.file.output_is_tied());
  const GgufTensor& embedding = *model.file.gguf().find_tensor("token_embd.weight");
  WorkByPhase work = {};
  model.work.add_rows({.n_rows = 5, .n_wanted = 0}, work);
  EXPECT_EQ(of(work, Phase::kHead), Work{});
  model.work.add_rows({.n_rows = 0, .n_wanted = 1}, work);
  EXPECT_EQ(of(work, Phase::kHead).weight_bytes, embedding.bytes + model.bytes_of({"output_norm"}));
  EXPECT_EQ(of(work, Phase::kHead).all_operations(), 2 * embedding.elements());
}

TEST(StepWork, AnExpertIsReadOnceForAllItsCalls) {
  const Counted model("mixtral");
  WorkByPhase once = {};
  WorkByPhase five_times = {};
  model.work.add_expert(0, 1, 1, once);
  model.work.add_expert(0, 1, 5, five_times);
  EXPECT_GT(model.work.expert_bytes(0, 1), 0);
  EXPECT_EQ(sum(once).weight_bytes, model.work.expert_bytes(0, 1));
  EXPECT_EQ(sum(five_times).weight_bytes, model.work.expert_bytes(0, 1));
  EXPECT_EQ(sum(five_times).all_operations(), 5 * sum(once).all_operations());
  model.work.add_expert(0, 1, 0, once);
  EXPECT_EQ(once[static_cast<size_t>(Phase::kExperts)].weight_bytes, model.work.expert_bytes(0, 1));
}

TEST(StepWork, OperationsGoByHowTheyAreDone) {
  const auto work_of = [](ActivationPrecision activations) {
    const Counted model("mixtral-small-q8_0", activations);  // experts in Q8_0, the rest in F32
    WorkByPhase work = {};
    model.work.add_rows({.n_rows = 1, .n_wanted = 1}, work);
    model.work.add_expert(0, 0, 1, work);
    return work;
  };
  WorkByPhase integer = work_of(ActivationPrecision::kQ8);
  WorkByPhase exact = work_of(ActivationPrecision::kF32);
  EXPECT_EQ(of(integer, Phase::kExperts).operations(Arithmetic::kF32), 0);
  EXPECT_EQ(of(integer, Phase::kExperts).operations(Arithmetic::kInt8),
            of(exact, Phase::kExperts).operations(Arithmetic::kF32));
  EXPECT_EQ(sum(exact).operations(Arithmetic::kInt8), 0);
  EXPECT_EQ(of(integer, Phase::kAttention), of(exact, Phase::kAttention));
}

TEST(StepWork, KeysAndValues) {
  const Counted model("mixtral");
  const ModelSpec& spec = model.file.spec();
  WorkByPhase work = {};
  model.work.add_rows({.n_rows = 0, .n_wanted = 0, .n_positions = 7, .n_attended = 11}, work);
  const int64_t elements = spec.n_layers * spec.n_kv_heads * (spec.head_dim + spec.value_dim);
  EXPECT_EQ(model.work.position_bytes(), 2 * elements);
  EXPECT_EQ(sum(work).kv_bytes, 7 * 2 * elements / spec.n_layers);
  EXPECT_EQ(sum(work).bytes(), sum(work).kv_bytes);
  EXPECT_EQ(of(work, Phase::kAttention).kv_operations,
            11 * 2 * spec.n_heads * (spec.head_dim + spec.value_dim));
}

TEST(PhaseProbe, GivesEveryMomentOfAStepToOnePhase) {
  int64_t now = 1000;
  PhaseProbe probe(Counted("mixtral").work, [&] { return now; });
  const auto spend = [&](int64_t ns) { now += ns; };
  for (int step = 0; step < 2; ++step) {
    probe.begin_step();
    spend(1);
    probe.enter(Phase::kAttention);
    spend(10);
    probe.enter(Phase::kRouter);
    spend(100);
    probe.enter(Phase::kExperts);
    spend(1000);
    probe.enter(Phase::kAttention);
    spend(10);
    probe.enter(Phase::kHead);
    spend(10'000);
    probe.enter(Phase::kOther);
    spend(2);
    probe.end_step();
    spend(1'000'000);  // between steps
  }
  probe.begin_step();  // one that has nothing to do
  spend(1'000'000);
  const PhaseTotals totals = probe.take();
  EXPECT_EQ(totals.n_steps, 2);
  EXPECT_EQ(totals.ns, (std::array<int64_t, kPhases>{40, 200, 2000, 20'000, 6}));
  EXPECT_EQ(totals.step_ns(), 22'246);
  EXPECT_EQ(probe.take().n_steps, 0);
  EXPECT_EQ(probe.take().step_ns(), 0);
}

}  // namespace
}  // namespace soli
