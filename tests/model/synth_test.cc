#include "model/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/rng.h"
#include "base/units.h"
#include "engine/engine.h"
#include "experts/local_executor.h"
#include "experts/resident_store.h"
#include "format/tokenizer.h"
#include "io/file.h"
#include "model/model_file.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::HasSubstr;

std::unique_ptr<Runtime> make_runtime(int n_threads, std::string_view isa = {}) {
  auto runtime = Runtime::create({.n_threads = n_threads, .isa = isa});
  EXPECT_TRUE(runtime.has_value());
  return std::move(*runtime);
}

std::string file_bytes(const std::string& path) {
  const Result<std::string> bytes = read_file(path, kGiB);
  EXPECT_TRUE(bytes.has_value());
  return bytes.value_or("");
}

class Synth : public testing::Test {
 protected:
  /// Writes and opens a model; a failure is a failure of the test.
  ModelFile write(const SynthOptions& options, const std::string& name = "model.gguf") {
    const Status written = write_synthetic_model(options, folder_ / name, *runtime_, {});
    if (!written) throw std::runtime_error(written.error().message);
    Result<ModelFile> file = ModelFile::open(folder_ / name);
    if (!file) throw std::runtime_error(file.error().message);
    return std::move(*file);
  }

  /// All values of a tensor, row after row.
  std::vector<float> values_of(const ModelFile& file, const std::string& tensor_name) {
    const GgufTensor* tensor = file.gguf().find_tensor(tensor_name);
    if (tensor == nullptr) throw std::runtime_error("no tensor " + tensor_name);
    std::vector<std::byte> bytes(static_cast<size_t>(tensor->bytes));
    EXPECT_TRUE(file.gguf().shard(0).read(tensor->offset, bytes).has_value());
    std::vector<float> values(static_cast<size_t>(tensor->elements()));
    const int64_t cols = tensor->dims[0];
    for (int64_t row = 0; row < tensor->elements() / cols; ++row) {
      runtime_->kernels()
          .find(tensor->type)
          ->dequantize_row(bytes.data() + row * tensor->row_bytes(), cols, values.data() + row * cols);
    }
    return values;
  }

  Error error_of(const SynthOptions& options) {
    const Status written = write_synthetic_model(options, folder_ / "refused.gguf", *runtime_, {});
    EXPECT_FALSE(written.has_value());
    EXPECT_TRUE(folder_.empty());
    return written ? Error{} : written.error();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Runtime> runtime_ = make_runtime(2);
};

SynthOptions tiny(std::string_view family = "olmoe") {
  Result<SynthOptions> options = tiny_synth(family);
  EXPECT_TRUE(options.has_value());
  return *options;
}

TEST_F(Synth, EveryFamilyReadsBackAsItWasAskedFor) {
  for (const std::string_view family : family_names()) {
    for (const bool dense : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", family, dense));
      SynthOptions options = tiny(family);
      if (dense) options.spec.router.n_experts = 0;
      options.tied_output = dense;
      options.spec.norm_epsilon = 1e-6;
      options.spec.rope_base = 12345.678;
      options.spec.rope_scale = 4;
      const ModelFile file = write(options);
      const Result<ModelSpec> spec = complete_synth_spec(options);
      ASSERT_TRUE(spec.has_value());
      EXPECT_TRUE(file.spec() == *spec);
      EXPECT_EQ(file.spec().architecture, family);
      EXPECT_EQ(file.output_is_tied(), dense);
      EXPECT_FLOAT_EQ(static_cast<float>(file.spec().rope_base), 12345.678F);
    }
  }
}

TEST_F(Synth, OddSizesReadBack) {
  SynthOptions options = tiny("qwen2moe");
  options.spec.n_layers = 1;
  options.spec.hidden_size = 35;
  options.spec.n_heads = 3;
  options.spec.n_kv_heads = 1;
  options.spec.head_dim = 6;
  options.spec.rope_dims = 4;
  options.spec.ffn_width = 11;
  options.spec.vocab_size = kMinSynthVocab;
  options.spec.context_length = 1;
  options.spec.router.n_experts = 5;
  options.spec.router.experts_per_token = 5;
  options.spec.expert_width = 1;
  options.spec.shared_expert_width = 77;
  const ModelFile file = write(options);
  EXPECT_TRUE(file.spec() == *complete_synth_spec(options));
  EXPECT_EQ(file.spec().shared_expert_width, 77);
}

TEST_F(Synth, PresetsAreCompleteAndTheirNamesUnique) {
  std::set<std::string_view> names;
  for (const std::string_view name : synth_preset_names()) {
    const Result<SynthOptions> options = synth_preset(name);
    ASSERT_TRUE(options.has_value()) << name;
    EXPECT_TRUE(complete_synth_spec(*options).has_value()) << name;
    EXPECT_TRUE(names.insert(name).second);
  }
  const ModelSpec olmoe = *complete_synth_spec(*synth_preset("olmoe-1b-7b"));
  EXPECT_EQ(olmoe.architecture, "olmoe");
  EXPECT_EQ(olmoe.router.n_experts, 64);
  EXPECT_EQ(olmoe.vocab_size, 50304);
  const Error error = synth_preset("olmo").error();
  EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("'olmo'"));
  EXPECT_THAT(error.message, HasSubstr("qwen3-30b-a3b"));
  EXPECT_THAT(tiny_synth("gpt-j").error().message, HasSubstr("qwen3moe"));
}

/// Root of the mean square of values that have mean 0.
double deviation_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST_F(Synth, WeightsOfEveryTypeKeepActivationsInSize) {
  for (const kernels::WeightKernels& type : runtime_->kernels().weights) {
    SCOPED_TRACE(type.name);
    SynthOptions options = tiny();
    options.spec.hidden_size = 256;
    options.spec.expert_width = 512;  // 8 x 512 x 256: from a pool
    options.spec.n_layers = 2;
    options.types = SynthOptions::uniform_types(type.gguf_type);
    const ModelFile file = write(options);
    EXPECT_EQ(file.gguf().find_tensor("blk.1.ffn_gate_exps.weight")->type, type.gguf_type);
    EXPECT_EQ(file.gguf().find_tensor("blk.1.ffn_gate_inp.weight")->type, kGgmlF32);
    // Rounding to few values of least squared error takes variance away, as do so few that one scale, that of
    // the largest, is all that there is to choose.
    const double bits = 8.0 * type.block_bytes / type.block_elements;
    const auto expect_deviation = [&](const char* name, double expected, double tolerance) {
      const double allowed = bits < 2.6 ? 0.25 * expected : tolerance;
      EXPECT_NEAR(deviation_of(values_of(file, name)), expected, allowed) << name;
    };
    expect_deviation("token_embd.weight", 1, 0.03);
    expect_deviation("blk.0.attn_q.weight", 1.0 / 16, 0.0025);
    expect_deviation("blk.0.ffn_gate_exps.weight", 1.0 / 16, 0.0025);
    // Two layers with two additions each to the residual stream.
    expect_deviation("blk.1.ffn_down_exps.weight", std::sqrt(1.0 / 512 / 4), 0.0008);
    EXPECT_THAT(values_of(file, "blk.1.ffn_norm.weight"), testing::Each(testing::FloatNear(1, 0.4)));
  }
}

TEST_F(Synth, RowsNeedOnlyBeWholeBlocks) {
  for (const auto& [type, width] : {std::pair{kGgmlNVFP4, 192}, {kGgmlQ2_0, 320}, {kGgmlQ1_0, 384}}) {
    SynthOptions options = tiny();
    options.spec.hidden_size = 256;
    options.spec.expert_width = width;
    options.spec.router.n_experts = 16;  // 16 x 192 x 256 and more: from a pool
    options.types = SynthOptions::uniform_types(type);
    const ModelFile file = write(options);
    EXPECT_EQ(file.gguf().find_tensor("blk.0.ffn_down_exps.weight")->type, type);
    const double expected = std::sqrt(1.0 / width / 4);
    EXPECT_NEAR(deviation_of(values_of(file, "blk.0.ffn_down_exps.weight")), expected, 0.25 * expected);
  }
}

TEST_F(Synth, BiasesAreAboutZero) {
  const std::vector<float> bias = values_of(write(tiny("qwen2")), "blk.1.attn_v.bias");
  EXPECT_THAT(bias, testing::Each(testing::FloatNear(0, 0.8)));
  EXPECT_NEAR(deviation_of(bias), 0.1, 0.03);
}

TEST_F(Synth, KeysOfTheFamilyCanBeSet) {
  SynthOptions options = tiny("gpt-oss");
  ASSERT_TRUE(set_synth_key(options, "attention.sliding_window", "7"));
  ASSERT_TRUE(set_synth_key(options, "rope.scaling.type", "yarn"));
  ASSERT_TRUE(set_synth_key(options, "rope.scaling.factor", "2.5"));
  const ModelSpec spec = write(options).spec();
  EXPECT_EQ(spec.sliding_window, 7);
  EXPECT_EQ(spec.position_scaling, PositionScaling::kYarn);
  EXPECT_EQ(spec.rope_scale, 2.5);
  EXPECT_THAT(set_synth_key(options, "attention.kv_lora_rank", "7").error().message,
              HasSubstr("attention.sliding_window"));
  EXPECT_THAT(set_synth_key(options, "attention.sliding_window", "7.5").error().message, HasSubstr("whole"));
  EXPECT_THAT(set_synth_key(options, "attention.sliding_window", "x").error().message, HasSubstr("'x'"));
  EXPECT_THAT(set_synth_key(options, "rope.scaling.type", "su").error().message, HasSubstr("longrope"));
}

TEST_F(Synth, ExpertsDiffer) {
  SynthOptions options = tiny();
  options.spec.hidden_size = 256;
  options.spec.expert_width = 256;
  options.types = SynthOptions::uniform_types(kGgmlF32);
  const ModelFile file = write(options);
  const std::vector<float> values = values_of(file, "blk.0.ffn_up_exps.weight");
  std::set<std::vector<float>> rows;
  for (size_t begin = 0; begin < values.size(); begin += 256)
    rows.emplace(values.begin() + static_cast<int64_t>(begin),
                 values.begin() + static_cast<int64_t>(begin) + 256);
  // 2,048 rows, of one piece each, out of a pool of 4,096.
  EXPECT_GT(rows.size(), 1400U);
  EXPECT_NE(values, values_of(file, "blk.1.ffn_up_exps.weight"));
  EXPECT_NE(values, values_of(file, "blk.0.ffn_gate_exps.weight"));
}

TEST_F(Synth, TypesArePerPartAndGiveWayWhereBlocksDoNotFit) {
  SynthOptions options = tiny();
  options.spec.hidden_size = 256;
  options.spec.n_heads = 4;
  options.spec.expert_width = 96;  // no 256, but 32
  options.types = SynthOptions::uniform_types(kGgmlQ4_K);
  options.type_of(Part::kEmbedding) = kGgmlQ8_0;
  options.type_of(Part::kOutputHead) = kGgmlQ6_K;
  options.type_of(Part::kRouter) = kGgmlF16;
  const ModelFile file = write(options);
  const auto type = [&](const char* name) { return ggml_type_name(file.gguf().find_tensor(name)->type); };
  EXPECT_EQ(type("token_embd.weight"), "Q8_0");
  EXPECT_EQ(type("output.weight"), "Q6_K");
  EXPECT_EQ(type("blk.0.attn_q.weight"), "Q4_K");
  EXPECT_EQ(type("blk.0.ffn_gate_inp.weight"), "F16");
  EXPECT_EQ(type("blk.0.ffn_up_exps.weight"), "Q4_K");
  EXPECT_EQ(type("blk.0.ffn_down_exps.weight"), "Q8_0");
  options.spec.expert_width = 72;
  const ModelFile odd = write(options);
  EXPECT_EQ(ggml_type_name(odd.gguf().find_tensor("blk.0.ffn_down_exps.weight")->type), "F16");
}

TEST_F(Synth, BytesDependOnTheOptionsAlone) {
  SynthOptions options = tiny();
  options.spec.hidden_size = 256;
  options.spec.expert_width = 256;  // experts come from a pool, the rest does not
  options.routing_skew = 1;
  write(options, "two.gguf");
  const std::string expected = file_bytes(folder_ / "two.gguf");
  for (const int n_threads : {1, 3, 4}) {
    for (const std::string_view isa : kernels::available_isas()) {
      runtime_ = make_runtime(n_threads, isa);
      write(options, "again.gguf");
      EXPECT_TRUE(file_bytes(folder_ / "again.gguf") == expected) << n_threads << " " << isa;
    }
  }
  options.seed = 1;
  write(options, "again.gguf");
  const std::string other = file_bytes(folder_ / "again.gguf");
  EXPECT_EQ(other.size(), expected.size());
  EXPECT_FALSE(other == expected);
}

TEST_F(Synth, VocabularyEncodesAnyText) {
  SynthOptions options = tiny();
  options.spec.vocab_size = 300;
  const ModelFile file = write(options);
  const auto tokenizer = Tokenizer::from_gguf(file.gguf());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->vocab_size(), 300);
  EXPECT_EQ((*tokenizer)->bos(), 256);
  EXPECT_EQ((*tokenizer)->eos(), 257);
  std::string text;
  for (int c = 0; c < 128; ++c) text.push_back(static_cast<char>(c));
  text += "Zürich 東京 🦀 [258] <|end|>";
  const auto ids = (*tokenizer)->encode(text);
  ASSERT_TRUE(ids.has_value()) << ids.error().message;
  EXPECT_EQ(ids->front(), 256);
  EXPECT_EQ(ids->size(), text.size() + 1);  // byte by byte
  for (size_t i = 0; i < text.size(); ++i) EXPECT_EQ((*ids)[i + 1], static_cast<uint8_t>(text[i]));
  EXPECT_EQ((*tokenizer)->decode(std::span(*ids).subspan(1)), text);
  EXPECT_EQ((*tokenizer)->piece(299, false), "[299]");
}

TEST_F(Synth, TellsItsProgress) {
  int64_t last = 0;
  int64_t total = 0;
  const Status written =
      write_synthetic_model(tiny(), folder_ / "model.gguf", *runtime_, [&](int64_t done, int64_t all) {
        EXPECT_GT(done, last);
        last = done;
        total = all;
        return true;
      });
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, ModelFile::open(folder_ / "model.gguf")->gguf().tensor_bytes());
}

TEST_F(Synth, LeavesNothingWhenItIsStopped) {
  const std::string folder = folder_ / "stopped";
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  int n_calls = 0;
  const Status written = write_synthetic_model(tiny(), folder + "/model.gguf", *runtime_,
                                               [&](int64_t, int64_t) { return ++n_calls < 3; });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(n_calls, 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(Synth, RefusesSizesOutOfRangeByName) {
  struct Case {
    const char* field;
    const char* allowed;
    void (*spoil)(SynthOptions&);
  };
  const Case cases[] = {
      {"architecture: 'gpt\\n'", "olmoe", [](SynthOptions& o) { o.spec.architecture = "gpt\n"; }},
      {"n_layers: 0", "1 to 4096", [](SynthOptions& o) { o.spec.n_layers = 0; }},
      {"n_layers: 4097", "1 to 4096", [](SynthOptions& o) { o.spec.n_layers = 4097; }},
      {"hidden_size: -1", "1 to", [](SynthOptions& o) { o.spec.hidden_size = -1; }},
      {"vocab_size: 258", "259 to", [](SynthOptions& o) { o.spec.vocab_size = 258; }},
      {"vocab_size", "259 to", [](SynthOptions& o) { o.spec.vocab_size = INT64_MAX; }},
      {"context_length: 0", "1 to", [](SynthOptions& o) { o.spec.context_length = 0; }},
      {"n_heads: 0", "1 to", [](SynthOptions& o) { o.spec.n_heads = 0; }},
      {"n_heads: 5", "a divisor", [](SynthOptions& o) { o.spec.n_heads = o.spec.n_kv_heads = 5; }},
      {"n_kv_heads: 3", "a divisor", [](SynthOptions& o) { o.spec.n_kv_heads = 3; }},
      {"n_kv_heads: 8", "1 to 4", [](SynthOptions& o) { o.spec.n_kv_heads = 8; }},
      {"head_dim: 1", "2 to", [](SynthOptions& o) { o.spec.head_dim = 1; }},
      {"value_dim: -2", "1 to", [](SynthOptions& o) { o.spec.value_dim = -2; }},
      {"rope_dims: 18", "2 to 16", [](SynthOptions& o) { o.spec.rope_dims = 18; }},
      {"rope_dims: 7", "even", [](SynthOptions& o) { o.spec.rope_dims = 7; }},
      {"rope_base: nan", "1e-06 to", [](SynthOptions& o) { o.spec.rope_base = std::nan(""); }},
      {"rope_scale: 0", "1e-06 to", [](SynthOptions& o) { o.spec.rope_scale = 0; }},
      {"norm_epsilon: 1", "0 to 0.5", [](SynthOptions& o) { o.spec.norm_epsilon = 1; }},
      {"n_experts: -3", "0 to", [](SynthOptions& o) { o.spec.router.n_experts = -3; }},
      {"experts_per_token: 9", "1 to 8", [](SynthOptions& o) { o.spec.router.experts_per_token = 9; }},
      {"expert_width: 0", "1 to", [](SynthOptions& o) { o.spec.expert_width = 0; }},
      {"ffn_width: -1", "1 to", [](SynthOptions& o) { o.spec.ffn_width = -1; }},
      {"shared_expert_width: 4", "0 to 0", [](SynthOptions& o) { o.spec.shared_expert_width = 4; }},
      {"n_leading_dense_layers: 1", "have 0", [](SynthOptions& o) { o.spec.n_leading_dense_layers = 1; }},
      {"routing_skew: -0.5", "0 to 8", [](SynthOptions& o) { o.routing_skew = -0.5; }},
      {"routing_skew: nan", "0 to 8", [](SynthOptions& o) { o.routing_skew = std::nan(""); }},
      {"type of attention: Q8_K", "Q4_K", [](SynthOptions& o) { o.type_of(Part::kAttention) = kGgmlQ8_K; }},
      {"type of embedding: type 4294967295", "Q4_K",
       [](SynthOptions& o) { o.type_of(Part::kEmbedding) = kTypeByMix; }},
      {"type of router: type 99", "F32", [](SynthOptions& o) { o.type_of(Part::kRouter) = 99; }},
      {"type of norms: F16", "F32", [](SynthOptions& o) { o.type_of(Part::kNorms) = kGgmlF16; }},
      {"name: 5000 bytes", "4096", [](SynthOptions& o) { o.spec.name = std::string(5000, 'x'); }},
  };
  for (const Case& c : cases) {
    SynthOptions options = tiny();
    c.spoil(options);
    const Error error = error_of(options);
    EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument) << c.field;
    EXPECT_THAT(error.message, HasSubstr(c.field));
    EXPECT_THAT(error.message, HasSubstr(c.allowed));
  }
  SynthOptions dense = tiny("qwen2");
  dense.spec.router.n_experts = 4;
  EXPECT_THAT(error_of(dense).message, HasSubstr("n_experts: 4 is not allowed; models of the family qwen2"));
  SynthOptions without_shared = tiny("qwen2moe");
  without_shared.spec.shared_expert_width = 0;
  EXPECT_THAT(error_of(without_shared).message, HasSubstr("shared_expert_width: 0 is not allowed; 1 to"));
}

TEST_F(Synth, RefusesWhatDoesNotFitOnTheDisk) {
  SynthOptions options = tiny();
  options.spec.n_layers = kMaxLayers;
  options.spec.hidden_size = kMaxHiddenSize;
  options.spec.head_dim = 128;
  options.spec.router.n_experts = kMaxExperts;
  options.spec.expert_width = int64_t{1} << 22;
  EXPECT_EQ(error_of(options).kind, ErrorKind::kLimit);
  EXPECT_THAT(error_of(options).message, HasSubstr("more than 1024 TiB"));
  options.spec.n_layers = 1;
  options.spec.router.n_experts = 64;
  EXPECT_THAT(error_of(options).message, HasSubstr("the disk has"));
}

TEST_F(Synth, RefusesAPathThatCannotBeWritten) {
  const Status written = write_synthetic_model(tiny(), folder_ / "no/such/model.gguf", *runtime_, {});
  ASSERT_FALSE(written.has_value());
  EXPECT_THAT(written.error().message, HasSubstr("no/such/model.gguf"));
}

TEST_F(Synth, NamesWeightTypes) {
  const kernels::KernelTable& kernels = runtime_->kernels();
  EXPECT_EQ(*weight_type_of_name(kernels, "q4_k"), uint32_t{kGgmlQ4_K});
  EXPECT_EQ(*weight_type_of_name(kernels, "BF16"), uint32_t{kGgmlBF16});
  EXPECT_THAT(weight_type_of_name(kernels, "q4").error().message, HasSubstr("Q4_K"));
}

/// Counts how often each expert of each layer was chosen.
class CountingObserver final : public RouterObserver {
 public:
  CountingObserver(int64_t n_layers, int64_t n_experts) : counts(n_layers, std::vector<int64_t>(n_experts)) {}

  void on_route(const RouterView& view, const Choice& choice) override {
    for (const int32_t id : choice.ids) ++counts[static_cast<size_t>(view.layer)][static_cast<size_t>(id)];
    // The last layer has experts in every family that has any.
    n_rows += view.layer + 1 == static_cast<int64_t>(counts.size()) ? choice.n_rows() : 0;
    n_slots += choice.n_slots();
  }

  std::vector<std::vector<int64_t>> counts;  // [layer][expert]
  int64_t n_rows = 0;
  int64_t n_slots = 0;
};

/// Share of the calls of a layer that went to its most popular expert; the mean over layers.
double hottest_share(const CountingObserver& observer) {
  double sum = 0;
  for (const std::vector<int64_t>& layer : observer.counts) {
    int64_t all = 0;
    for (const int64_t count : layer) all += count;
    sum += static_cast<double>(*std::max_element(layer.begin(), layer.end())) / static_cast<double>(all);
  }
  return sum / static_cast<double>(observer.counts.size());
}

/// Runs random tokens through the model.
CountingObserver run(ModelFile file, Runtime& runtime, int64_t n_tokens) {
  const ModelSpec spec = file.spec();
  auto model = std::move(*Model::load(std::move(file), runtime, {}));
  auto store = std::move(*ResidentExpertStore::load(model->file(), runtime, {}));
  auto executor = std::move(*LocalExecutor::create(spec, *store, runtime.budget(), {}));
  CountingObserver observer(spec.n_layers, spec.router.n_experts);
  auto engine = std::move(*Engine::create(*model, executor, {.hooks = {.observer = &observer}}));
  Request request;
  request.max_new_tokens = 1;
  Rng rng(7);
  for (int64_t i = 0; i < n_tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>(rng.next_below(static_cast<uint64_t>(spec.vocab_size))));
  auto stream = std::move(*engine->submit(std::move(request)));
  while (engine->step()) {
  }
  StreamEvent event = stream->pop();
  while (event.kind != StreamEvent::Kind::kFinished) event = stream->pop();
  EXPECT_EQ(event.reason, FinishReason::kMaxNewTokens);  // all values stayed finite
  return observer;
}

TEST_F(Synth, SkewMakesSomeExpertsPopular) {
  SynthOptions options = tiny();
  options.spec.n_layers = 4;
  options.spec.hidden_size = 256;
  options.spec.vocab_size = 2048;
  options.spec.context_length = 1024;
  options.spec.router.n_experts = 32;
  options.spec.router.experts_per_token = 4;
  std::vector<double> shares;
  for (const double skew : {0.0, 0.5, 1.0, 2.0}) {
    options.routing_skew = skew;
    const CountingObserver observer = run(write(options), *runtime_, 1000);
    EXPECT_EQ(observer.n_rows, 1000);
    EXPECT_EQ(observer.n_slots, 1000 * 4 * 4);
    shares.push_back(hottest_share(observer));
  }
  // Uniform is 1/32; every token can call the most popular expert once in four calls.
  EXPECT_LT(shares[0], 2.0 / 32);
  EXPECT_GT(shares[1], 1.3 * shares[0]);
  EXPECT_GT(shares[2], 1.3 * shares[1]);
  EXPECT_GT(shares[3], shares[2]);
  EXPECT_LE(shares[3], 0.25);
  // Zipf with exponent 1 over 32 experts gives the first of one draw 1 / (1 + 1/2 + ... + 1/32) = 0.25; four
  // draws without replacement spread it.
  EXPECT_GT(shares[2], 0.12);
}

TEST_F(Synth, EveryFamilyRuns) {
  for (const std::string_view family : family_names()) {
    SCOPED_TRACE(family);
    const CountingObserver observer = run(write(tiny(family)), *runtime_, 50);
    EXPECT_EQ(observer.n_rows, find_family(family)->experts.empty() ? 0 : 50);
  }
}

}  // namespace
}  // namespace soli
