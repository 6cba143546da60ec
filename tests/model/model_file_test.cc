// What ModelFile refuses, and that each refusal names the key or the tensor at fault: metadata that lies,
// tensors that are missing, left over or of another shape, and experts that do not fit their counts.

#include "model/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/parameters.h"
#include "support/gguf_rewrite.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// One golden model per family.
const std::vector<std::string> kOfEachFamily = {"mixtral",     "olmoe",    "qwen2-dense",    "qwen2moe",
                                                "qwen3-dense", "qwen3moe", "deepseek2-lite", "deepseek2-v3",
                                                "gpt-oss",     "glm4moe",  "phimoe"};

GgufRewrite golden(const std::string& name) { return GgufRewrite(GoldenCase(name).model_path()); }

GgufValue of_double(double value) {
  GgufValue result;
  result.type = GgufType::kFloat64;
  result.bytes.assign(reinterpret_cast<const char*>(&value), sizeof(value));
  return result;
}

GgufValue of_uint(uint64_t value) { return GgufValue::of_uint64(value); }

/// Writes a copy in which an expert tensor keeps only its first experts.
void keep_experts(GgufRewrite& file, const std::string& name, int64_t n_experts) {
  GgufRewrite::Tensor& tensor = file.tensor(name);
  tensor.data.resize(tensor.data.size() / static_cast<size_t>(tensor.dims[2]) *
                     static_cast<size_t>(n_experts));
  tensor.dims[2] = n_experts;
}

class ModelFiles : public testing::Test {
 protected:
  Result<ModelFile> open(const GgufRewrite& file) { return ModelFile::open(file.write(path_)); }

  /// The error that opening such a file gives; it always names the file.
  Error error_of(const GgufRewrite& file) {
    const Result<ModelFile> opened = open(file);
    if (opened) return {ErrorKind::kInvalidArgument, "opened"};
    EXPECT_THAT(opened.error().message, testing::StartsWith(path_ + ": "));
    return opened.error();
  }
  std::string message_of(const GgufRewrite& file) { return error_of(file).message; }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "model.gguf";
};

TEST_F(ModelFiles, EveryKeyOfEveryFamilyIsNamedWhereItIsMissing) {
  for (const std::string& name : kOfEachFamily) {
    const GgufRewrite whole = golden(name);
    const Result<ModelFile> opened = open(whole);
    ASSERT_TRUE(opened) << name;
    const std::string prefix = opened->spec().architecture + ".";
    for (const KeySlot& slot : opened->family().keys) {
      SCOPED_TRACE(prefix + slot.suffix);
      const Error error = error_of(GgufRewrite(whole).remove(prefix + slot.suffix));
      if (slot.required) {
        EXPECT_EQ(error.kind, ErrorKind::kNotFound);
        EXPECT_THAT(error.message, HasSubstr("'" + prefix + slot.suffix + "' is missing"));
      } else if (slot.suffix == "expert_count" || slot.suffix == "expert_used_count") {
        EXPECT_THAT(error.message, HasSubstr(prefix + slot.suffix));
      }
    }
    EXPECT_THAT(message_of(GgufRewrite(whole).remove("general.architecture")),
                HasSubstr("'general.architecture' is missing"));
  }
}

TEST_F(ModelFiles, NoKeyTakesAStringOrAList) {
  for (const std::string& name : kOfEachFamily) {
    const GgufRewrite whole = golden(name);
    const Result<ModelFile> opened = open(whole);
    ASSERT_TRUE(opened) << name;
    for (const KeySlot& slot : opened->family().keys) {
      const std::string key = opened->spec().architecture + "." + slot.suffix;
      for (const GgufValue& value : {GgufValue::of_string("2"), GgufValue::of_bool(true),
                                     GgufValue::of_uint32s(std::vector<uint32_t>{2, 2})}) {
        if (value.type == GgufType::kBool && std::holds_alternative<bool RouterSpec::*>(slot.field)) continue;
        const Error error = error_of(GgufRewrite(whole).set(key, value));
        EXPECT_EQ(error.kind, ErrorKind::kMalformed);
        EXPECT_THAT(error.message, AllOf(HasSubstr("'" + key + "'"), HasSubstr("must be")));
      }
    }
  }
}

TEST_F(ModelFiles, CountsOutsideOfTheirRangeAreNamed) {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const std::vector<std::pair<std::string, std::vector<uint64_t>>> cases = {
      {"block_count", {0, 1'000'000'000, kHuge, kMost}},
      {"embedding_length", {0, 63, kHuge, kMost}},
      {"context_length", {0, kHuge, kMost}},
      {"feed_forward_length", {kHuge, kMost}},
      {"attention.head_count", {0, 3, kHuge, kMost}},
      {"attention.head_count_kv", {3, 8, kHuge, kMost}},
      {"attention.key_length", {kHuge, kMost}},
      {"attention.value_length", {kHuge, kMost}},
      {"rope.dimension_count", {1, 15, 18, kHuge, kMost}},
      {"expert_count", {0, 1, kHuge, kMost}},
      {"expert_used_count", {0, 9, kHuge, kMost}},
  };
  const GgufRewrite whole = golden("mixtral");
  for (const auto& [suffix, values] : cases) {
    for (const uint64_t value : values) {
      SCOPED_TRACE(fmt::format("{} {}", suffix, value));
      const Error error = error_of(GgufRewrite(whole).set("llama." + suffix, of_uint(value)));
      EXPECT_EQ(error.kind, ErrorKind::kMalformed);
      EXPECT_THAT(error.message, HasSubstr("llama." + suffix));
    }
    const Error error = error_of(GgufRewrite(whole).set("llama." + suffix, GgufValue::of_int32(-1)));
    EXPECT_THAT(error.message, AllOf(HasSubstr("llama." + suffix), HasSubstr("-1")));
  }
}

TEST_F(ModelFiles, NumbersWithoutMeaningAreNamed) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, std::vector<double>>> cases = {
      {"attention.layer_norm_rms_epsilon", {-1e-5, 1, 1e300, kNan, kInfinity, -kInfinity}},
      {"rope.freq_base", {0, -10000, 1e-320, 1e30, 1e300, kNan, kInfinity}},
      {"rope.scaling.factor", {-1, 1e-320, 1e300, kNan, kInfinity}},
  };
  const GgufRewrite whole = golden("mixtral");
  for (const auto& [suffix, values] : cases) {
    for (const double value : values) {
      SCOPED_TRACE(fmt::format("{} {}", suffix, value));
      const Error error = error_of(GgufRewrite(whole).set("llama." + suffix, of_double(value)));
      EXPECT_EQ(error.kind, ErrorKind::kMalformed);
      EXPECT_THAT(error.message, HasSubstr("llama." + suffix));
    }
  }
}

TEST_F(ModelFiles, CountsThatTheTensorsContradictNameATensorWithBothShapes) {
  const GgufRewrite whole = golden("mixtral");
  const auto with = [&](const std::string& suffix, uint64_t value) {
    return message_of(GgufRewrite(whole).set("llama." + suffix, of_uint(value)));
  };
  EXPECT_THAT(with("block_count", 4096), HasSubstr("tensor blk.2."));
  EXPECT_THAT(with("block_count", 1), AllOf(HasSubstr("tensor blk.1."), HasSubstr("1 layers")));
  EXPECT_THAT(with("embedding_length", 128),
              AllOf(HasSubstr("token_embd.weight"), HasSubstr("[64, 328]"), HasSubstr("[128, 328]")));
  EXPECT_THAT(with("attention.head_count_kv", 4),
              AllOf(HasSubstr("blk.0.attn_k.weight"), HasSubstr("[64, 32]"), HasSubstr("[64, 64]")));
  EXPECT_THAT(with("expert_count", 4),
              AllOf(HasSubstr("blk.0.ffn_gate_inp.weight"), HasSubstr("[64, 8]"), HasSubstr("[64, 4]")));
  EXPECT_THAT(with("expert_count", kMaxExperts), HasSubstr("blk.0.ffn_gate_inp.weight"));
}

TEST_F(ModelFiles, FewerExpertsInATensorThanTheKeySays) {
  for (const char* matrix : {"gate", "up", "down"}) {
    GgufRewrite file = golden("mixtral");
    const std::string name = fmt::format("blk.1.ffn_{}_exps.weight", matrix);
    keep_experts(file, name, 4);
    const auto& dims = file.tensor(name).dims;
    EXPECT_THAT(
        message_of(file),
        AllOf(HasSubstr("tensor " + name), HasSubstr(fmt::format("[{}, {}, 4]", dims[0], dims[1])),
              HasSubstr(fmt::format("[{}, {}, 8]", dims[0], dims[1])), HasSubstr("llama.expert_count is 8")));
  }
}

TEST_F(ModelFiles, ExpertsWithoutACountNameTheCount) {
  for (const char* name : {"mixtral", "olmoe", "qwen2moe", "qwen3moe"}) {
    const GgufRewrite whole = golden(name);
    const std::string key = open(whole)->spec().architecture + ".expert_count";
    GgufRewrite split = whole;
    split.split_experts();
    for (const GgufRewrite* file : {&whole, static_cast<const GgufRewrite*>(&split)}) {
      EXPECT_THAT(message_of(GgufRewrite(*file).remove(key)), HasSubstr(key));
      EXPECT_THAT(message_of(GgufRewrite(*file).set(key, of_uint(0))), HasSubstr(key));
    }
  }
}

TEST_F(ModelFiles, MoreExpertsUsedThanThereAreNamesBothCounts) {
  for (const uint64_t used : {uint64_t{0}, uint64_t{9}, uint64_t{1} << 61}) {
    GgufRewrite file = golden("olmoe");
    EXPECT_THAT(message_of(file.set("olmoe.expert_used_count", of_uint(used))),
                AllOf(HasSubstr(fmt::format("olmoe.expert_used_count: {} ", used)),
                      HasSubstr("olmoe.expert_count 8")));
  }
  GgufRewrite all = golden("olmoe");
  EXPECT_TRUE(open(all.set("olmoe.expert_used_count", of_uint(8))));
}

bool is_of_a_prediction_layer(const std::string& name, const ModelSpec& spec) {
  return spec.n_prediction_layers > 0 && name.starts_with(fmt::format("blk.{}.", spec.n_layers));
}

/// A bias that only chooses, what GLM-4.5-Air and GLM-4.5 differ in, and what is not computed.
bool may_be_absent(const std::string& name, const ModelSpec& spec) {
  const bool is_of_attention = name.find("attn_q") != name.npos || name.find("attn_k") != name.npos ||
                               name.find("attn_v") != name.npos;
  const bool is_optional = spec.architecture == "glm4moe" && is_of_attention &&
                           (name.find("_norm") != name.npos || name.ends_with(".bias"));
  return is_optional || name.find("exp_probs_b") != name.npos || is_of_a_prediction_layer(name, spec);
}

TEST_F(ModelFiles, EveryTensorOfEveryFamilyIsNamedWhereItIsMissing) {
  std::vector<GgufRewrite> files;
  for (const std::string& name : kOfEachFamily) files.push_back(golden(name));
  files.push_back(golden("mixtral").split_experts());
  for (const GgufRewrite& whole : files) {
    for (const GgufRewrite::Tensor& tensor : whole.tensors()) {
      GgufRewrite file = whole;
      file.remove_tensor(tensor.name);
      if (tensor.name == "output.weight" && open(whole)->spec().architecture == "phimoe") {
        EXPECT_THAT(message_of(file), HasSubstr("output.bias"));
      } else if (tensor.name == "output.weight") {
        EXPECT_TRUE(open(file)->output_is_tied());
      } else if (may_be_absent(tensor.name, open(whole)->spec())) {
        EXPECT_TRUE(open(file)) << tensor.name;
      } else {
        EXPECT_THAT(message_of(file), HasSubstr("tensor " + tensor.name + " is missing"));
      }
    }
  }
}

TEST_F(ModelFiles, ATensorThatNobodyClaimsIsNamed) {
  for (const char* extra : {"blk.0.ffn_gate_up_exps.weight", "blk.2.attn_q.weight", "blk.0.attn_q.scale",
                            "blk.00.attn_q.weight", "output_norm.bias", "v.patch_embd.weight"}) {
    GgufRewrite file = golden("mixtral");
    file.tensors().push_back({extra, kGgmlF32, {2}, std::string(8, '\0')});
    const Error error = error_of(file);
    EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr(std::string("tensor ") + extra));
  }
}

TEST_F(ModelFiles, AnUnknownArchitectureIsNamedWithThoseThatAreKnown) {
  GgufRewrite file = golden("mixtral");
  const Error error = error_of(file.set("general.architecture", GgufValue::of_string("rwkv\x1b[2J")));
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("rwkv\\x1B"));  // no terminal is cleared by a file
  for (const std::string_view name : family_names()) EXPECT_THAT(error.message, HasSubstr(std::string(name)));
}

TEST_F(ModelFiles, RopeScalingThatIsNotComputedIsRefused) {
  for (const char* type : {"yarn", "longrope", "LINEAR", "", "a\nb"}) {
    GgufRewrite file = golden("qwen3moe");
    const Error error = error_of(file.set("qwen3moe.rope.scaling.type", GgufValue::of_string(type)));
    EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
    EXPECT_THAT(error.message, AllOf(HasSubstr("qwen3moe.rope.scaling.type: '"), HasSubstr("linear")));
    EXPECT_THAT(error.message, testing::Not(HasSubstr("\n")));
  }
  GgufRewrite none = golden("qwen3moe");
  none.set("qwen3moe.rope.scaling.type", GgufValue::of_string("none"));
  EXPECT_EQ(open(none.set("qwen3moe.rope.scaling.factor", of_double(4)))->spec().rope_scale, 1);
  none.set("qwen3moe.rope.scaling.type", GgufValue::of_string("linear"));
  EXPECT_EQ(open(none)->spec().rope_scale, 4);
}

TEST_F(ModelFiles, WhatWouldChangeTheResultAndIsNotComputedIsRefused) {
  GgufRewrite file = golden("deepseek2-v3");
  file.set("deepseek2.attention.temperature_scale", of_double(0.1));
  const Error error = error_of(file);
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("deepseek2.attention.temperature_scale: 0.1"));
  EXPECT_TRUE(open(file.set("deepseek2.attention.temperature_scale", of_double(0))));
}

TEST_F(ModelFiles, TransposedExpertsAreNotFixedByTheirShape) {
  for (const char* matrix : {"gate", "up", "down"}) {
    GgufRewrite file = golden("mixtral");
    const std::string name = fmt::format("blk.1.ffn_{}_exps.weight", matrix);
    auto& dims = file.tensor(name).dims;
    const std::vector<int64_t> right = dims;
    std::swap(dims[0], dims[1]);
    EXPECT_THAT(message_of(file),
                AllOf(HasSubstr("tensor " + name), HasSubstr(fmt::format("[{}, {}, 8]", right[1], right[0])),
                      HasSubstr(fmt::format("[{}, {}, 8]", right[0], right[1]))));
  }
}

TEST_F(ModelFiles, TensorsOfAnotherShapeAreNamed) {
  for (const std::string& name : kOfEachFamily) {
    const GgufRewrite whole = golden(name);
    for (size_t i = 0; i < whole.tensors().size(); ++i) {
      GgufRewrite file = whole;
      GgufRewrite::Tensor& tensor = file.tensors()[i];
      if (tensor.name.find("ffn_gate_inp_shexp") != std::string::npos) continue;  // [n] or [n, 1]
      if (is_of_a_prediction_layer(tensor.name, open(whole)->spec())) continue;
      tensor.dims.push_back(1);  // the same shape, said in other words
      EXPECT_TRUE(open(file)) << tensor.name;
      tensor.dims.pop_back();
      // As many elements, in two halves.
      tensor.dims.front() /= 2;
      tensor.dims.push_back(2);
      EXPECT_THAT(message_of(file), AllOf(HasSubstr("tensor "), HasSubstr("its shape is"))) << tensor.name;
    }
  }
}

TEST_F(ModelFiles, WidthsComeFromShapesWhateverTheKeysSay) {
  GgufRewrite file = golden("qwen2moe");
  file.set("qwen2moe.feed_forward_length", of_uint(7));
  file.set("qwen2moe.expert_feed_forward_length", of_uint(9));
  file.set("qwen2moe.expert_shared_feed_forward_length", of_uint(uint64_t{1} << 60));
  const Result<ModelFile> opened = open(file);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->spec().expert_width, 32);
  EXPECT_EQ(opened->spec().shared_expert_width, 64);
}

TEST_F(ModelFiles, QueriesKeysAndValuesStandOnlyOnce) {
  GgufRewrite file = golden("mixtral");
  file.tensors().push_back(
      {"blk.1.attn_qkv.weight", kGgmlF32, {64, 128}, std::string(size_t{64} * 128 * 4, '\0')});
  EXPECT_THAT(message_of(file), AllOf(HasSubstr("blk.1.attn_q.weight"), HasSubstr("blk.1.attn_qkv.weight")));
  file.remove_tensor("blk.1.attn_k.weight").remove_tensor("blk.1.attn_v.weight");
  EXPECT_THAT(message_of(file), AllOf(HasSubstr("blk.1.attn_q.weight"), HasSubstr("blk.1.attn_qkv.weight")));
  file.remove_tensor("blk.1.attn_q.weight");
  EXPECT_TRUE(open(file));
  file.tensor("blk.1.attn_qkv.weight").dims = {128, 64};
  EXPECT_THAT(message_of(file),
              AllOf(HasSubstr("blk.1.attn_qkv.weight"), HasSubstr("[128, 64]"), HasSubstr("[64, 128]")));
}

TEST_F(ModelFiles, AFileThatIsCutShortIsRefused) {
  GgufRewrite file = golden("mixtral");
  file.write(path_);
  const auto size = std::filesystem::file_size(path_);
  for (const auto kept : {size - 1, size / 2, size_t{4}, size_t{0}}) {
    std::filesystem::resize_file(path_, kept);
    const Result<ModelFile> opened = ModelFile::open(path_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind, ErrorKind::kMalformed);
  }
}

}  // namespace
}  // namespace soli
