// The reference against another independent implementation: the golden cases with F32 weights, in all the
// layouts that files have.

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/compare.h"
#include "reference/forward.h"
#include "reference/layouts.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli::reference {
namespace {

// What the goldens were made with (tests/golden/README.md).
constexpr int64_t kContextLength = 256;

/// The expert ids of the golden, and the weight per id.
void check_choices(const GoldenCase& golden, const nlohmann::json& prompt, const Choices& ours) {
  for (const auto& layer : prompt["moe"]) {
    const auto ids = read_binary<int32_t>(golden.folder + layer["ids"].get<std::string>());
    const auto weights = read_binary<float>(golden.folder + layer["weights"].get<std::string>());
    const auto k = layer["k"].get<size_t>();
    for (size_t position = 0; position < prompt["n_tokens"].get<size_t>(); ++position) {
      const std::pair<int64_t, int64_t> place(layer["layer"].get<int64_t>(), position);
      ASSERT_TRUE(ours.count(place)) << "layer " << place.first << " is not dense";
      ASSERT_EQ(ours.at(place).size(), k);
      for (size_t i = position * k; i < (position + 1) * k; ++i) {
        ASSERT_TRUE(ours.at(place).count(ids[i]))
            << "layer " << place.first << " position " << position << " expert " << ids[i];
        EXPECT_NEAR(ours.at(place).at(ids[i]), weights[i], 1e-5);
      }
    }
  }
}

void check_case(const GoldenCase& golden, const std::string& path) {
  const TensorFile file(path);
  for (const auto& prompt : golden.json["prompts"]) {
    SCOPED_TRACE(prompt["n_tokens"].dump() + " tokens");
    const Output output = forward(file, prompt["tokens"].get<std::vector<int32_t>>(), kContextLength);
    const auto expected = read_binary<float>(golden.folder + prompt["logits"].get<std::string>());
    EXPECT_LE(relative_distance(rows_of(expected, output.logits.size()), output.logits), 5e-6);
    const size_t n_layers = prompt["moe"].size();
    EXPECT_EQ(output.choices.size(), n_layers * output.logits.size());
    check_choices(golden, prompt, output.choices);
  }
}

class ReferenceGolden : public testing::TestWithParam<const char*> {};

TEST_P(ReferenceGolden, LogitsAndRoutingAgree) {
  const GoldenCase golden(GetParam());
  check_case(golden, golden.model_path());
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceGolden,
                         testing::Values("bailingmoe2", "deepseek2-lite", "deepseek2-v3", "dots1",
                                         "ernie4_5-moe", "glm4moe", "gpt-oss", "granitemoe", "hunyuan-moe",
                                         "llama-dense", "minimax-m2", "mixtral", "mixtral-split", "olmoe",
                                         "phimoe", "qwen2-dense", "qwen2moe", "qwen3-dense", "qwen3moe",
                                         "qwen3vlmoe"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ReferenceLayouts, OldLatentAttention) {
  const TemporaryFolder folder;
  for (const char* name : {"deepseek2-lite", "deepseek2-v3"}) {
    const GoldenCase golden(name);
    GgufRewrite file(golden.model_path());
    join_latent_projections(file);
    check_case(golden, file.write(folder / "model.gguf"));
  }
}

TEST(ReferenceLayouts, FusedTensors) {
  const TemporaryFolder folder;
  for (const char* name : {"mixtral", "qwen2moe", "glm4moe", "phimoe"}) {
    const GoldenCase golden(name);
    GgufRewrite file(golden.model_path());
    fuse_qkv(file);
    fuse_gate_and_up(file);
    check_case(golden, file.write(folder / "model.gguf"));
  }
}

TEST(ReferenceLayouts, OneTensorPerExpert) {
  const TemporaryFolder folder;
  const GoldenCase golden("mixtral");
  check_case(golden, GgufRewrite(golden.model_path()).split_experts().write(folder / "model.gguf"));
}

}  // namespace
}  // namespace soli::reference
