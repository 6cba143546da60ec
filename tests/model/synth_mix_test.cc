#include "model/synth_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "model/model_file.h"
#include "model/synth.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::ElementsAre;

/// The layers of `n_layers` in which a matrix has the type.
std::vector<int64_t> layers_of(const TypeMix& mix, int64_t n_layers, Part part, Dim rows, uint32_t type) {
  ModelSpec spec;
  spec.n_layers = n_layers;
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    if (type_in_mix(mix, spec, false, part, rows, layer) == type) layers.push_back(layer);
  }
  return layers;
}

const TypeMix& mix_of(std::string_view name) {
  const TypeMix* mix = find_type_mix(name);
  if (mix == nullptr) throw std::runtime_error("no such mixture");
  return *mix;
}

// What llama.cpp v0.5.0 gives to the tensors of models of these shapes (llama_model_quantize).
TEST(SynthMix, RaisesTheLayersThatPublishedFilesRaise) {
  const TypeMix& medium = mix_of("Q4_K_M");
  for (const auto& [part, rows] :
       {std::pair{Part::kAttention, Dim::kValueRow}, std::pair{Part::kRoutedExperts, Dim::kHidden},
        std::pair{Part::kSharedExperts, Dim::kHidden}, std::pair{Part::kDenseFfn, Dim::kHidden}}) {
    EXPECT_THAT(layers_of(medium, 16, part, rows, kGgmlQ6_K), ElementsAre(0, 1, 4, 7, 10, 13, 14, 15));
    EXPECT_THAT(layers_of(medium, 4, part, rows, kGgmlQ6_K), ElementsAre(2, 3));
    EXPECT_EQ(layers_of(mix_of("Q5_K_M"), 48, part, rows, kGgmlQ6_K).size(), 24U);
  }
  EXPECT_EQ(layers_of(medium, 16, Part::kRoutedExperts, Dim::kExpertWidth, kGgmlQ4_K).size(), 16U);
  EXPECT_EQ(layers_of(medium, 16, Part::kAttention, Dim::kHidden, kGgmlQ4_K).size(), 16U);
  EXPECT_EQ(layers_of(medium, 16, Part::kAttention, Dim::kQueryRow, kGgmlQ4_K).size(), 16U);
  const TypeMix& small = mix_of("q4_k_s");
  EXPECT_THAT(layers_of(small, 16, Part::kAttention, Dim::kValueRow, kGgmlQ5_K), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layers_of(small, 16, Part::kRoutedExperts, Dim::kHidden, kGgmlQ5_K), ElementsAre(0, 1));
  EXPECT_EQ(layers_of(mix_of("Q5_K_S"), 16, Part::kAttention, Dim::kValueRow, kGgmlQ5_K).size(), 16U);
}

TEST(SynthMix, EightExpertsSpendMoreOnAttention) {
  ModelSpec spec;
  spec.n_layers = 32;
  spec.router.n_experts = 8;
  const auto type = [&](std::string_view mix, Dim rows) {
    return type_in_mix(mix_of(mix), spec, false, Part::kAttention, rows, 0);
  };
  EXPECT_EQ(type("Q4_K_M", Dim::kValueRow), kGgmlQ8_0);
  EXPECT_EQ(type("Q4_K_M", Dim::kKeyRow), kGgmlQ8_0);
  EXPECT_EQ(type("Q4_K_M", Dim::kHidden), kGgmlQ5_K);
  EXPECT_EQ(type("Q4_K_M", Dim::kQueryRow), kGgmlQ4_K);
  spec.router.n_experts = 16;
  EXPECT_EQ(type("Q4_K_M", Dim::kKeyRow), kGgmlQ4_K);
}

TEST(SynthMix, TheHeadHasMoreBitsAndSoHasAnEmbeddingInItsPlace) {
  const ModelSpec spec;
  const auto type = [&](std::string_view mix, bool tied, Part part) {
    return type_in_mix(mix_of(mix), spec, tied, part, Dim::kVocab, 0);
  };
  EXPECT_EQ(type("Q4_K_S", false, Part::kOutputHead), kGgmlQ6_K);
  EXPECT_EQ(type("Q4_K_S", false, Part::kEmbedding), kGgmlQ4_K);
  EXPECT_EQ(type("Q4_K_S", true, Part::kEmbedding), kGgmlQ6_K);
  EXPECT_EQ(type("MXFP4_MOE", false, Part::kOutputHead), kGgmlQ8_0);
}

TEST(SynthMix, OnlyRoutedExpertsAreMxfp4) {
  const TypeMix& mix = mix_of("MXFP4_MOE");
  for (const Dim rows : {Dim::kExpertWidth, Dim::kHidden})
    EXPECT_EQ(layers_of(mix, 8, Part::kRoutedExperts, rows, kGgmlMXFP4).size(), 8U);
  EXPECT_EQ(layers_of(mix, 8, Part::kSharedExperts, Dim::kHidden, kGgmlQ8_0).size(), 8U);
  EXPECT_EQ(layers_of(mix, 8, Part::kAttention, Dim::kValueRow, kGgmlQ8_0).size(), 8U);
}

TEST(SynthMix, NormsAndTheRouterAreF32) {
  const ModelSpec spec;
  for (const std::string_view name : type_mix_names()) {
    for (const Part part : {Part::kNorms, Part::kRouter})
      EXPECT_EQ(type_in_mix(mix_of(name), spec, false, part, Dim::kExperts, 0), kGgmlF32);
  }
  EXPECT_EQ(find_type_mix("Q4_K"), nullptr);
  EXPECT_EQ(find_type_mix(""), nullptr);
}

TEST(SynthMix, IsWrittenTensorByTensor) {
  const TemporaryFolder folder;
  const auto runtime = std::move(*Runtime::create({.n_threads = 2}));
  SynthOptions options = *tiny_synth("qwen2moe");
  options.spec.n_layers = 8;
  options.spec.hidden_size = options.spec.expert_width = options.spec.shared_expert_width = 256;
  options.spec.ffn_width = 256;
  options.spec.router.n_experts = 12;  // eight are a case of their own
  options.use_mix(mix_of("Q4_K_M"));
  options.type_of(Part::kEmbedding) = kGgmlF16;  // one part that leaves the mixture
  ASSERT_TRUE(write_synthetic_model(options, folder / "model.gguf", *runtime, {}).has_value());
  const auto file = ModelFile::open(folder / "model.gguf");
  ASSERT_TRUE(file.has_value());
  const std::map<std::string, std::string_view> expected = {{"token_embd.weight", "F16"},
                                                            {"output.weight", "Q6_K"},
                                                            {"blk.0.attn_v.weight", "Q6_K"},
                                                            {"blk.1.attn_v.weight", "Q4_K"},
                                                            {"blk.0.attn_k.weight", "Q4_K"},
                                                            {"blk.0.ffn_down_exps.weight", "Q6_K"},
                                                            {"blk.1.ffn_down_exps.weight", "Q4_K"},
                                                            {"blk.0.ffn_up_exps.weight", "Q4_K"},
                                                            {"blk.0.ffn_down_shexp.weight", "Q6_K"},
                                                            {"blk.0.ffn_gate_inp.weight", "F32"},
                                                            {"blk.0.attn_norm.weight", "F32"}};
  for (const auto& [name, type] : expected) {
    const GgufTensor* tensor = file->gguf().find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(ggml_type_name(tensor->type), type) << name;
  }
}

}  // namespace
}  // namespace soli
