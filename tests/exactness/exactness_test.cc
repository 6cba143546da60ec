// The same request gives the same bits: at once, token by token, in chunks, in any batch, for any number of
// threads, on every instruction set.

#include <gtest/gtest.h>

#include <string>

#include "support/loaded_engine.h"

namespace soli {
namespace {

EngineOptions options_with(int64_t chunk_rows, ActivationPrecision activations, KvType kv_type) {
  return {.context_length = 128, .chunk_rows = chunk_rows, .kv_type = kv_type, .activations = activations};
}

struct Variant {
  std::string model;
  ActivationPrecision activations = ActivationPrecision::kF32;
  KvType kv_type = KvType::kF32;
};

class Exactness : public testing::TestWithParam<Variant> {
 protected:
  LoadedEngine load(int n_threads, std::string_view isa, int64_t chunk_rows) {
    const Variant& variant = GetParam();
    auto loaded =
        LoadedEngine::create(GoldenCase(variant.model).model_path(), {.n_threads = n_threads, .isa = isa},
                             options_with(chunk_rows, variant.activations, variant.kv_type));
    EXPECT_TRUE(loaded) << loaded.error().message;
    return std::move(*loaded);
  }

  /// One request after the other, alone.
  static std::vector<Answer> alone(Engine& engine, const std::vector<Request>& requests) {
    std::vector<Answer> answers;
    for (const Request& request : requests) answers.push_back(run_together(engine, {request}).front());
    return answers;
  }

  static void expect_same(const std::vector<Answer>& expected, const std::vector<Answer>& answers) {
    ASSERT_EQ(expected.size(), answers.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(same_bits(expected[i], answers[i])) << "request " << i;
  }
};

TEST_P(Exactness, BatchesChunksThreadsAndInstructionSetsGiveTheSameBits) {
  LoadedEngine reference_engine = load(1, "scalar", 512);
  const auto requests = eight_requests(reference_engine.model->spec().vocab_size);
  const auto reference = alone(*reference_engine.engine, requests);
  ASSERT_EQ(reference.back().logits.size(), 90U + 6U);
  for (const std::string_view isa : kernels::available_isas()) {
    for (const int n_threads : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::string(isa) + ", " + std::to_string(n_threads) + " threads");
      LoadedEngine loaded = load(n_threads, isa, 512);
      expect_same(reference, run_together(*loaded.engine, requests));  // eight mixed in one batch
      if (n_threads == 2) {
        expect_same(reference, alone(*loaded.engine, requests));
        for (const int64_t chunk_rows : {1, 3, 17}) {
          SCOPED_TRACE(std::to_string(chunk_rows) + " rows per step");
          ASSERT_TRUE(loaded.restart(options_with(chunk_rows, GetParam().activations, GetParam().kv_type)));
          expect_same(reference, alone(*loaded.engine, requests));
          expect_same(reference, run_together(*loaded.engine, requests));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Exactness,
                         testing::Values(Variant{"olmoe"}, Variant{"mixtral"}, Variant{"qwen2moe"},
                                         Variant{"qwen3-dense", ActivationPrecision::kF32, KvType::kF16},
                                         Variant{"mixtral-small-q8_0", ActivationPrecision::kQ8,
                                                 KvType::kF16},
                                         Variant{"qwen3moe-mix-q4_k_m"}, Variant{"deepseek2-lite"},
                                         Variant{"deepseek2-v3", ActivationPrecision::kF32, KvType::kF16},
                                         Variant{"gpt-oss"}, Variant{"glm4moe"}, Variant{"phimoe"}));

}  // namespace
}  // namespace soli
