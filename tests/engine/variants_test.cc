// Files that say the same thing in different ways give the same bits, and files whose result follows from
// another file's by arithmetic give that result: experts of any number and width, dense files with the name
// of a mixture of experts, split experts, fused projections, tied heads, 16-bit norms, the shared expert's
// gate.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/synth.h"
#include "support/gguf_rewrite.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using Logits = std::vector<std::vector<float>>;

GgufRewrite golden(const std::string& name) { return GgufRewrite(GoldenCase(name).model_path()); }

std::vector<float> floats_of(const GgufRewrite::Tensor& tensor) {
  SOLI_CHECK(tensor.type == kGgmlF32, "{}", tensor.name);
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

void scale(GgufRewrite::Tensor& tensor, float factor) {
  std::vector<float> values = floats_of(tensor);
  for (float& value : values) value *= factor;
  tensor.data = bytes_of(values);
}

/// Stores an F32 tensor in another type, row by row.
void store_as(GgufRewrite::Tensor& tensor, uint32_t type) {
  const kernels::WeightKernels& kernels = *(*kernels::select_kernels("scalar"))->find(type);
  const std::vector<float> values = floats_of(tensor);
  const int64_t cols = tensor.dims[0];
  const auto n_rows = static_cast<int64_t>(values.size()) / cols;
  tensor.type = type;
  tensor.data.assign(static_cast<size_t>(n_rows * kernels.row_bytes(cols)), '\0');
  for (int64_t row = 0; row < n_rows; ++row) {
    kernels.quantize_row(values.data() + row * cols, cols,
                         reinterpret_cast<std::byte*>(tensor.data.data()) + row * kernels.row_bytes(cols));
  }
}

/// The values that a tensor has, as F32.
void store_as_f32(GgufRewrite::Tensor& tensor) {
  const kernels::WeightKernels& kernels = *(*kernels::select_kernels("scalar"))->find(tensor.type);
  const int64_t cols = tensor.dims[0];
  const int64_t n_rows = static_cast<int64_t>(tensor.data.size()) / kernels.row_bytes(cols);
  std::vector<float> values(static_cast<size_t>(n_rows * cols));
  for (int64_t row = 0; row < n_rows; ++row) {
    kernels.dequantize_row(
        reinterpret_cast<const std::byte*>(tensor.data.data()) + row * kernels.row_bytes(cols), cols,
        values.data() + row * cols);
  }
  tensor.type = kGgmlF32;
  tensor.data = bytes_of(values);
}

bool same_bits(const Logits& a, const Logits& b) {
  if (a.size() != b.size() || a.empty()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
  }
  return true;
}

double relative_distance(const Logits& ours, const Logits& expected) {
  double squares = 0;
  double total = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < expected[i].size(); ++j) {
      squares += std::pow(static_cast<double>(ours[i][j]) - static_cast<double>(expected[i][j]), 2);
      total += std::pow(static_cast<double>(expected[i][j]), 2);
    }
  }
  return std::sqrt(squares / total);
}

class Variants : public testing::Test {
 protected:
  /// Logits of a prompt and some greedy tokens after it.
  Logits run(const std::string& path, ActivationPrecision activations = ActivationPrecision::kF32) {
    auto loaded = LoadedEngine::create(
        path, {.n_threads = 2}, {.context_length = 32, .kv_type = KvType::kF32, .activations = activations});
    EXPECT_TRUE(loaded) << loaded.error().message;
    if (!loaded) return {};
    const Answer answer =
        run_together(*loaded->engine, {greedy_with_logits({5, 60, 7, 8, 90, 11, 250}, 4)}).front();
    EXPECT_EQ(answer.reason, FinishReason::kMaxNewTokens);
    for (const auto& row : answer.logits) {
      for (const float logit : row) EXPECT_TRUE(std::isfinite(logit));
    }
    return answer.logits;
  }
  Logits run(const GgufRewrite& file, ActivationPrecision activations = ActivationPrecision::kF32) {
    return run(file.write(folder_ / "model.gguf"), activations);
  }

  TemporaryFolder folder_;
};

struct Shape {
  int64_t n_experts;
  int64_t k;
  int64_t width;
};

/// Cuts the feed-forward of a dense model to its first `width` inner features.
void cut_width(GgufRewrite& file, int layer, int64_t width) {
  for (const char* matrix : {"gate", "up"}) {
    GgufRewrite::Tensor& tensor = file.tensor(fmt::format("blk.{}.ffn_{}.weight", layer, matrix));
    tensor.data.resize(static_cast<size_t>(tensor.dims[0] * width) * sizeof(float));
    tensor.dims[1] = width;
  }
  GgufRewrite::Tensor& down = file.tensor(fmt::format("blk.{}.ffn_down.weight", layer));
  const std::vector<float> values = floats_of(down);
  std::vector<float> cut;
  for (int64_t row = 0; row < down.dims[1]; ++row) {
    const auto begin = values.begin() + row * down.dims[0];
    cut.insert(cut.end(), begin, begin + width);
  }
  down.dims[0] = width;
  down.data = bytes_of(cut);
}

/// Makes experts of a dense feed-forward: expert e is it, with an output e + 1 times as large. The router's
/// logits are all equal, so that the k first experts are chosen, each with the weight 1 / k.
void make_experts(GgufRewrite& file, int layer, const Shape& shape) {
  for (const char* matrix : {"gate", "up", "down"}) {
    GgufRewrite::Tensor& tensor = file.tensor(fmt::format("blk.{}.ffn_{}.weight", layer, matrix));
    const GgufRewrite::Tensor whole = tensor;
    tensor.data.clear();
    for (int64_t e = 0; e < shape.n_experts; ++e) {
      GgufRewrite::Tensor expert = whole;
      if (std::string(matrix) == "down") scale(expert, static_cast<float>(e + 1));
      tensor.data += expert.data;
    }
    tensor.name = fmt::format("blk.{}.ffn_{}_exps.weight", layer, matrix);
    tensor.dims.push_back(shape.n_experts);
  }
  const auto bytes = static_cast<size_t>(64 * shape.n_experts) * sizeof(float);
  file.tensors().push_back({fmt::format("blk.{}.ffn_gate_inp.weight", layer),
                            kGgmlF32,
                            {64, shape.n_experts},
                            std::string(bytes, '\0')});
}

TEST_F(Variants, ExpertsOfAnyNumberAndWidthAddUp) {
  for (const Shape& shape : {Shape{1, 1, 160}, Shape{2, 1, 96}, Shape{3, 2, 7}, Shape{3, 3, 1},
                             Shape{5, 5, 33}, Shape{60, 60, 16}, Shape{60, 4, 5}, Shape{160, 6, 3}}) {
    SCOPED_TRACE(fmt::format("{} experts, k {}, width {}", shape.n_experts, shape.k, shape.width));
    GgufRewrite dense = golden("llama-dense");
    for (const int layer : {0, 1}) cut_width(dense, layer, shape.width);
    GgufRewrite experts = dense;
    for (const int layer : {0, 1}) {
      make_experts(experts, layer, shape);
      // The mean of 1, 2 ... k.
      scale(dense.tensor(fmt::format("blk.{}.ffn_down.weight", layer)), static_cast<float>(shape.k + 1) / 2);
    }
    experts.set("llama.expert_count", GgufValue::of_uint32(static_cast<uint32_t>(shape.n_experts)));
    experts.set("llama.expert_used_count", GgufValue::of_uint32(static_cast<uint32_t>(shape.k)));
    // No formula over this leads to the width.
    experts.set("llama.feed_forward_length", GgufValue::of_uint32(1000));
    EXPECT_LT(relative_distance(run(experts), run(dense)), 1e-5);
    GgufRewrite split = experts;
    EXPECT_TRUE(same_bits(run(split.split_experts()), run(experts)));
  }
}

TEST_F(Variants, ADenseFileWithTheNameOfAMixtureRunsAsDense) {
  for (const auto& [model, architecture] :
       {std::pair{"qwen3-dense", "qwen3moe"}, std::pair{"qwen2-dense", "qwen2moe"}}) {
    const GgufRewrite dense = golden(model);
    const Logits expected = run(dense);
    GgufRewrite file = dense;
    file.set_architecture(architecture);
    EXPECT_TRUE(same_bits(run(file), expected));
    // What is said about experts that are not there sizes no buffer.
    const std::string prefix = std::string(architecture) + ".";
    file.set(prefix + "expert_used_count", GgufValue::of_uint64(uint64_t{1} << 61));
    file.set(prefix + "expert_shared_feed_forward_length", GgufValue::of_uint64(uint64_t{1} << 61));
    file.set(prefix + "expert_count", GgufValue::of_uint32(0));
    EXPECT_TRUE(same_bits(run(file), expected));
  }
}

TEST_F(Variants, OneTensorPerExpertEqualsTheMergedOne) {
  const auto runtime = std::move(*Runtime::create({.n_threads = 2}));
  SynthOptions options = *tiny_synth("llama");
  options.spec.router.n_experts = 12;  // 10 and 11 stand before 2 in the order of strings
  options.spec.router.experts_per_token = 5;
  options.spec.expert_width = 48;
  options.types = SynthOptions::uniform_types(kGgmlQ8_0);
  const std::string path = folder_ / "merged.gguf";
  ASSERT_TRUE(write_synthetic_model(options, path, *runtime, {}));
  for (const std::string& merged : {path, GoldenCase("mixtral").model_path()}) {
    GgufRewrite split(merged);
    split.split_experts();
    ASSERT_EQ(
        ModelFile::open(split.write(folder_ / "split.gguf"))->gguf().find_tensor("blk.0.ffn_up_exps.weight"),
        nullptr);
    EXPECT_TRUE(same_bits(run(folder_ / "split.gguf"), run(merged)));
  }
}

/// Puts three tensors of a layer together as "attn_qkv", rows of q first.
void fuse(GgufRewrite& file, int layer, const char* suffix) {
  const std::string prefix = fmt::format("blk.{}.attn_", layer);
  GgufRewrite::Tensor fused = file.tensor(prefix + "q." + suffix);
  fused.name = prefix + "qkv." + suffix;
  for (const char* part : {"k.", "v."}) {
    const GgufRewrite::Tensor& tensor = file.tensor(prefix + part + suffix);
    fused.data += tensor.data;
    fused.dims.back() += tensor.dims.back();
  }
  for (const char* part : {"q.", "k.", "v."}) file.remove_tensor(prefix + part + suffix);
  file.tensors().insert(file.tensors().begin(), fused);
}

TEST_F(Variants, FusedProjectionsEqualSeparateOnes) {
  // With two key heads for four query heads, with a head_dim that is not d / heads, quantised, and with
  // biases.
  for (const char* name : {"mixtral", "qwen3moe", "mixtral-small-q8_0", "qwen2-dense", "qwen2moe"}) {
    SCOPED_TRACE(name);
    const GgufRewrite separate = golden(name);
    GgufRewrite fused = separate;
    for (const int layer : {0, 1}) {
      fuse(fused, layer, "weight");
      if (std::string(name).starts_with("qwen2")) fuse(fused, layer, "bias");
    }
    EXPECT_TRUE(same_bits(run(fused), run(separate)));
  }
}

TEST_F(Variants, FusedWeightsNeedAFusedBias) {
  GgufRewrite fused = golden("qwen2-dense");
  fuse(fused, 1, "weight");
  const auto opened = ModelFile::open(fused.write(folder_ / "model.gguf"));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, testing::HasSubstr("blk.1.attn_qkv.bias"));
  fuse(fused, 1, "bias");
  fused.tensor("blk.1.attn_qkv.bias").dims = {64, 2};
  const auto wrong = ModelFile::open(fused.write(folder_ / "model.gguf"));
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message,
              testing::AllOf(testing::HasSubstr("blk.1.attn_qkv.bias"), testing::HasSubstr("[64, 2]"),
                             testing::HasSubstr("[128]")));
}

TEST_F(Variants, ATiedHeadEqualsACopyOfTheEmbedding) {
  for (const char* name : {"mixtral", "mixtral-small-q4_0"}) {
    GgufRewrite tied = golden(name);
    tied.remove_tensor("output.weight");
    GgufRewrite copied = tied;
    GgufRewrite::Tensor head = copied.tensor("token_embd.weight");
    head.name = "output.weight";
    copied.tensors().push_back(head);
    EXPECT_TRUE(same_bits(run(tied), run(copied)));
  }
}

TEST_F(Variants, NormsOf16BitsHaveTheirValues) {
  for (const uint32_t type : {kGgmlF16, kGgmlBF16}) {
    GgufRewrite narrow = golden("qwen3moe");
    for (GgufRewrite::Tensor& tensor : narrow.tensors()) {
      if (tensor.name.find("norm") != std::string::npos) store_as(tensor, type);
    }
    GgufRewrite wide = narrow;
    for (GgufRewrite::Tensor& tensor : wide.tensors()) store_as_f32(tensor);
    EXPECT_TRUE(same_bits(run(narrow), run(wide)));
  }
}

class SharedGate : public Variants,
                   public testing::WithParamInterface<std::tuple<uint32_t, ActivationPrecision>> {};

TEST_P(SharedGate, ALogitOfZeroHalvesTheSharedOutputExactly) {
  const auto [type, activations] = GetParam();
  // Routed experts that give nothing leave the shared one alone...
  GgufRewrite gated = golden("qwen2moe");
  for (GgufRewrite::Tensor& tensor : gated.tensors()) {
    const bool zero = tensor.name.find("ffn_gate_inp_shexp") != std::string::npos ||
                      tensor.name.find("ffn_down_exps") != std::string::npos;
    if (zero) tensor.data.assign(tensor.data.size(), '\0');
    if (tensor.name.find("ffn_down_shexp") == std::string::npos) continue;
    std::vector<float> values = floats_of(tensor);
    for (float& value : values) {
      if (std::abs(value) < 2e-4F) value = 0;  // its half would not be exact in 16 bits
    }
    tensor.data = bytes_of(values);
  }
  // ... and that is the feed-forward of a dense model.
  GgufRewrite halved = gated;
  halved.set_architecture("qwen2");
  for (const int layer : {0, 1}) {
    for (const char* matrix : {"gate", "up", "down"}) {
      halved.remove_tensor(fmt::format("blk.{}.ffn_{}_exps.weight", layer, matrix));
      halved.tensor(fmt::format("blk.{}.ffn_{}_shexp.weight", layer, matrix)).name =
          fmt::format("blk.{}.ffn_{}.weight", layer, matrix);
    }
    halved.remove_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer));
    halved.remove_tensor(fmt::format("blk.{}.ffn_gate_inp_shexp.weight", layer));
  }
  GgufRewrite whole = halved;
  for (const int layer : {0, 1}) scale(halved.tensor(fmt::format("blk.{}.ffn_down.weight", layer)), 0.5F);
  for (GgufRewrite* file : {&gated, &halved, &whole}) {
    for (GgufRewrite::Tensor& tensor : file->tensors()) {
      const bool matrix = tensor.dims.size() > 1 && tensor.name.find("ffn_gate_inp.") == std::string::npos;
      if (matrix) store_as(tensor, type);
    }
  }
  const Logits ours = run(gated, activations);
  EXPECT_TRUE(same_bits(ours, run(halved, activations)));
  EXPECT_GT(relative_distance(ours, run(whole, activations)), 1e-3) << "the shared expert matters here";
}

std::string name_of(const testing::TestParamInfo<SharedGate::ParamType>& info) {
  const auto [type, activations] = info.param;
  return ggml_type_name(type) + (activations == ActivationPrecision::kQ8 ? "_q8" : "_f32");
}

INSTANTIATE_TEST_SUITE_P(Types, SharedGate,
                         testing::Values(std::tuple{kGgmlF32, ActivationPrecision::kF32},
                                         std::tuple{kGgmlF16, ActivationPrecision::kF32},
                                         std::tuple{kGgmlBF16, ActivationPrecision::kF32},
                                         std::tuple{kGgmlQ8_0, ActivationPrecision::kF32},
                                         std::tuple{kGgmlQ8_0, ActivationPrecision::kQ8},
                                         std::tuple{kGgmlQ4_0, ActivationPrecision::kF32},
                                         std::tuple{kGgmlQ4_0, ActivationPrecision::kQ8}),
                         name_of);

}  // namespace
}  // namespace soli
