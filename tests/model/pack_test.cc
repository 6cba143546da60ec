// Packing: that a packed model computes the same bits, what is copied and what is laid out anew, over how
// many files, and what is refused before anything is written.

#include "model/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "model/packed_loader.h"
#include "model/synth.h"
#include "model/weight_loader.h"
#include "support/gguf_rewrite.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  const auto bytes = read_binary<char>(path);
  return {bytes.begin(), bytes.end()};
}

std::vector<Answer> answers_of(const std::string& path, ActivationPrecision activations) {
  auto loaded =
      LoadedEngine::create(path, {.n_threads = 2}, {.context_length = 64, .activations = activations});
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return {};
  const int64_t vocab = loaded->model->spec().vocab_size;
  return run_together(*loaded->engine, {greedy_with_logits(random_prompt(1, 9, vocab), 4),
                                        greedy_with_logits(random_prompt(2, 30, vocab), 2)});
}

class Pack : public testing::Test {
 protected:
  Pack() {
    for (const char* drive : {"a", "b", "c"}) fs::create_directory(folder_ / drive);
  }

  std::string synth(const std::string& family, const std::function<void(SynthOptions&)>& change = {}) const {
    SynthOptions options = std::move(*tiny_synth(family));
    if (change) change(options);
    const std::string path = folder_ / (family + ".gguf");
    const Status written = write_synthetic_model(options, path, *runtime_, {});
    SOLI_CHECK(written.has_value(), "{}", written.error().message);
    return path;
  }
  Result<PackedFiles> pack(const std::string& model, const PackOptions& options) const {
    SOLI_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::open(model));
    return pack_model(file, options, *runtime_, {});
  }
  /// The path to open.
  std::string packed(const std::string& model, const std::vector<std::string>& drives = {}) const {
    PackOptions options = {.out = folder_ / "packed.gguf"};
    for (const std::string& drive : drives) options.folders.push_back(folder_ / drive);
    const auto files = pack(model, options);
    SOLI_CHECK(files.has_value(), "{}", files.error().message);
    return files->paths.front();
  }
  Error error_of(const std::string& model, const PackOptions& options) const {
    const auto files = pack(model, options);
    return files ? Error{ErrorKind::kIo, "packed"} : files.error();
  }
  void expect_same_bits(const std::string& model) const {
    for (const ActivationPrecision activations : {ActivationPrecision::kF32, ActivationPrecision::kQ8}) {
      const auto plain = answers_of(model, activations);
      for (const std::string& other : {packed(model), packed(model, {"a", "b", "c"})}) {
        const auto answers = answers_of(other, activations);
        ASSERT_EQ(answers.size(), plain.size());
        for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], answers[i])) << other;
      }
    }
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Runtime> runtime_ = std::move(*Runtime::create({.n_threads = 3}));
};

TEST_F(Pack, AMixtureOfKQuantsComputesTheSameBits) {
  expect_same_bits(synth("qwen3moe", [](SynthOptions& options) {
    options.spec.n_layers = 8;  // so that the mixture gives layers different types
    options.spec.hidden_size = 256;
    options.spec.expert_width = 256;
    options.spec.router.n_experts = 7;
    options.use_mix(*find_type_mix("Q4_K_M"));
  }));
}

TEST_F(Pack, ExpertsWithBiasesComputeTheSameBits) {
  expect_same_bits(synth("gpt-oss", [](SynthOptions& options) {
    options.type_of(Part::kRoutedExperts) = kGgmlMXFP4;
    options.spec.expert_width = 96;  // strips of 16, matrices of 64 bytes and more
  }));
}

TEST_F(Pack, LeadingDenseLayersComputeTheSameBits) {
  expect_same_bits(synth("deepseek2", [](SynthOptions& options) {
    options.spec.n_layers = 4;
    options.spec.n_leading_dense_layers = 2;
  }));
}

TEST_F(Pack, GateAndUpInOneTensorComputeTheSameBits) {
  expect_same_bits(synth("qwen3moe", [](SynthOptions& options) { options.fuse_experts = true; }));
}

TEST_F(Pack, GoldenModelsComputeTheSameBits) {
  for (const char* name : {"gpt-oss-small-gptoss", "mixtral-split", "deepseek2-lite"}) {
    SCOPED_TRACE(name);
    expect_same_bits(GoldenCase(name).model_path());
  }
}

TEST_F(Pack, OneTensorPerExpertGivesTheSameExtents) {
  const std::string merged = synth("llama");
  const std::string split = GgufRewrite(merged).split_experts().write(folder_ / "split.gguf");
  const ModelFile a = std::move(*ModelFile::open(packed(merged)));
  ASSERT_TRUE(pack(split, {.out = folder_ / "packed_split.gguf"}));
  const ModelFile b = std::move(*ModelFile::open(folder_ / "packed_split.gguf"));
  for (int64_t layer = 0; layer < a.spec().n_layers; ++layer) {
    for (int64_t e = 0; e < a.spec().router.n_experts; ++e)
      EXPECT_EQ(a.extent(layer, e)->checksum, b.extent(layer, e)->checksum);
  }
}

TEST_F(Pack, CopiesAllElseByteByByteAndKeepsTheMetadata) {
  const std::string model = GoldenCase("gpt-oss-small-gptoss").model_path();
  const GgufRewrite before(model);
  const GgufRewrite after(packed(model));
  size_t n_copied = 0;
  for (const GgufRewrite::Tensor& tensor : before.tensors()) {
    if (tensor.name.find("_exps.weight") != std::string::npos) continue;
    const auto same = std::find_if(after.tensors().begin(), after.tensors().end(),
                                   [&](const auto& other) { return other.name == tensor.name; });
    ASSERT_NE(same, after.tensors().end()) << tensor.name;
    EXPECT_EQ(same->type, tensor.type);
    EXPECT_EQ(same->dims, tensor.dims);
    EXPECT_TRUE(same->data == tensor.data) << tensor.name;
    ++n_copied;
  }
  const ModelFile plain = std::move(*ModelFile::open(model));
  const ModelFile packed = std::move(*ModelFile::open(folder_ / "packed.gguf"));
  EXPECT_EQ(after.tensors().size(), n_copied + static_cast<size_t>(plain.spec().n_moe_layers()));
  std::map<std::string, std::string> values;
  for (const auto& line : packed.gguf().metadata().listing()) values[line.key] = line.type + line.value;
  for (const auto& line : plain.gguf().metadata().listing())
    EXPECT_EQ(values[line.key], line.type + line.value) << line.key;
}

TEST_F(Pack, ExtentsHoldWhatTheLoaderWouldMakeAndZeros) {
  const std::string model = synth("olmoe", [](SynthOptions& options) {
    options.spec.expert_width = 40;  // not whole strips
    options.types = SynthOptions::uniform_types(kGgmlF16);
  });
  const ModelFile plain = std::move(*ModelFile::open(model));
  const ModelFile file = std::move(*ModelFile::open(packed(model)));
  const std::string bytes = bytes_of(folder_ / "packed.gguf");
  for (int64_t layer = 0; layer < plain.spec().n_layers; ++layer) {
    for (int64_t e = 0; e < plain.spec().router.n_experts; ++e) {
      const ExpertExtent& extent = *file.extent(layer, e);
      std::string expected(static_cast<size_t>(extent.bytes), '\0');
      for (size_t m = 0; m < kExpertMatrices; ++m) {
        WeightLoader loader(plain.gguf(), *runtime_, "test");
        ASSERT_TRUE(loader.add(plain.experts(layer)[m][static_cast<size_t>(e)]));
        ASSERT_TRUE(loader.load({}));
        std::memcpy(expected.data() + extent.matrix_offsets[m], loader.matrix(0).data,
                    static_cast<size_t>(loader.matrix(0).packed_bytes()));
      }
      EXPECT_TRUE(bytes.compare(static_cast<size_t>(extent.offset), expected.size(), expected) == 0)
          << layer << " " << e;
    }
  }
}

// Packed files outlive the program that wrote them. Where a strip of one of these types is laid out in
// another way, kPackVersion has to grow.
TEST(PackLayout, StripsOfTheseTypesAreThoseOfVersion1) {
  ASSERT_EQ(kPackVersion, 1U);
  const std::map<std::string, uint64_t> expected = {
      {"F32", 0x31ad9df0365cbd03},     {"F16", 0x1f8fa5ebbdb5d6fe},     {"BF16", 0xcd848a2e82bb6964},
      {"IQ1_M", 0x703cfe48df6f1c3d},   {"IQ1_S", 0x817b6feae647462e},   {"IQ2_S", 0x44d472ddc9447fa3},
      {"IQ2_XS", 0x2196360a0a7eb29e},  {"IQ2_XXS", 0x4242c25690120c86}, {"IQ3_S", 0x443597355edbee29},
      {"IQ3_XXS", 0xdf43c563a362061d}, {"IQ4_NL", 0x5d1ddb678b7f017d},  {"IQ4_XS", 0x425f21b0d87eefad},
      {"MXFP4", 0xb0cceb3553730b9a},   {"NVFP4", 0x4f83cd4f7589d5b7},   {"Q1_0", 0x5d1ddb678b7f017d},
      {"Q2_0", 0x5d1ddb678b7f017d},    {"Q2_K", 0x6eae67565a720651},    {"Q3_K", 0x3e8728a3089bfb92},
      {"Q4_0", 0x5d1ddb678b7f017d},    {"Q4_1", 0xe390d095ec481c8d},    {"Q4_K", 0xa0facadace441b8a},
      {"Q5_0", 0x02594730499aac2d},    {"Q5_1", 0x938e3bd5153f1f0a},    {"Q5_K", 0x7d78ceef892eb4cb},
      {"Q6_K", 0x104f8f2a2d0ee0d1},    {"Q8_0", 0xd4159c9ab2616802},    {"TQ1_0", 0x4f52b22b6b811e84},
      {"TQ2_0", 0x80334c0ef4d4a0d2}};
  std::map<std::string, uint64_t> found;
  for (const kernels::WeightKernels& type : (*kernels::select_kernels("scalar"))->weights) {
    const int64_t cols = 2 * std::max(type.block_elements, 32);
    std::vector<std::byte> rows(static_cast<size_t>(type.strip_bytes(cols)));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i * 2'654'435'761U >> 13);
    std::vector<std::byte> strip(rows.size());
    type.pack_strip(rows.data(), cols, strip.data());
    found[std::string(type.name)] = checksum_of(strip);
  }
  for (const auto& [name, checksum] : expected) EXPECT_EQ(found[name], checksum) << name;
}

TEST_F(Pack, BytesDependOnTheModelAlone) {
  const std::string model = synth("qwen3moe");
  const std::string first = bytes_of(packed(model));
  const auto one_thread = std::move(*Runtime::create({.n_threads = 1, .isa = "scalar"}));
  const ModelFile file = std::move(*ModelFile::open(model));
  ASSERT_TRUE(pack_model(file, {.out = folder_ / "again.gguf"}, *one_thread, {}));
  EXPECT_TRUE(bytes_of(folder_ / "again.gguf") == first);
}

TEST_F(Pack, StripesLieInTheirFoldersAndAreLinkedBesideTheFirstShard) {
  const std::string model =
      synth("qwen3moe", [](SynthOptions& options) { options.spec.router.n_experts = 8; });
  const std::string path = packed(model, {"a", "b", "c"});
  EXPECT_EQ(path, folder_ / "packed-00001-of-00004.gguf");
  for (const auto& [drive, name] : {std::pair{"a/", "packed-00002-of-00004.gguf"},
                                    {"b/", "packed-00003-of-00004.gguf"},
                                    {"c/", "packed-00004-of-00004.gguf"}}) {
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / drive + name)));
    EXPECT_TRUE(fs::is_symlink(folder_ / name));
    EXPECT_TRUE(fs::equivalent(folder_ / name, folder_ / drive + name));
  }
  for (const std::string& shard : {path, folder_ / "packed-00003-of-00004.gguf"}) {
    const auto file = ModelFile::open(shard);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->packed()->n_stripes(), 3);
    for (int64_t e = 0; e < 8; ++e) EXPECT_EQ(file->extent(1, e)->shard, 1 + e % 3);
    EXPECT_TRUE(find_damage(*file, *runtime_, {})->empty());
  }
  // Once more, over what is there; and two of them beside the first one, where they need no links.
  EXPECT_EQ(packed(model, {"a", "b", "c"}), path);
  EXPECT_TRUE(ModelFile::open(path));
  ASSERT_TRUE(pack(model, {.out = folder_ / "near", .folders = {folder_ / ".", folder_ / "a/.."}}));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "near-00002-of-00003.gguf")));
  EXPECT_TRUE(ModelFile::open(folder_ / "near-00001-of-00003.gguf"));
  // One folder: everything but the experts here, the experts there.
  ASSERT_TRUE(pack(model, {.out = folder_ / "apart.gguf", .folders = {folder_ / "b"}}));
  EXPECT_EQ(ModelFile::open(folder_ / "apart-00001-of-00002.gguf")->extent(0, 3)->shard, 1);
}

TEST_F(Pack, RefusesWhatCannotBePacked) {
  const std::string model = synth("qwen3moe");
  const PackOptions out = {.out = folder_ / "out.gguf"};
  EXPECT_THAT(error_of(packed(model), out).message, HasSubstr("packed.gguf: it is packed already"));
  EXPECT_THAT(error_of(GoldenCase("qwen3-dense").model_path(), out).message, HasSubstr("has no experts"));

  GgufRewrite mixed = std::move(GgufRewrite(GoldenCase("mixtral").model_path()).split_experts());
  GgufRewrite::Tensor& odd = mixed.tensor("blk.1.ffn_up.2.weight");
  odd.type = kGgmlF16;
  odd.data.resize(odd.data.size() / 2);
  EXPECT_THAT(error_of(mixed.write(folder_ / "mixed.gguf"), out).message,
              HasSubstr("tensor blk.1.ffn_up.2.weight: it is F16, and blk.1.ffn_up.0.weight is F32"));
  EXPECT_FALSE(fs::exists(out.out));
}

TEST_F(Pack, RefusesPlacesThatItCannotOrMustNotWriteTo) {
  const std::string model = synth("qwen3moe");
  EXPECT_THAT(error_of(model, {.out = model}).message,
              HasSubstr("it is the model, and would be written over"));
  fs::create_symlink(model, folder_ / "link.gguf");
  EXPECT_THAT(error_of(model, {.out = folder_ / "link.gguf"}).message, HasSubstr("it is the model"));
  EXPECT_THAT(error_of(model, {.out = folder_ / "a"}).message, HasSubstr("Is a directory"));
  EXPECT_THAT(error_of(model, {.out = "/dev/null"}).message, HasSubstr("not a regular file"));
  EXPECT_EQ(error_of(model, {.out = folder_ / "no/such.gguf"}).kind, ErrorKind::kNotFound);
  EXPECT_THAT(
      error_of(model, {.out = folder_ / "x", .folders = {folder_ / "a", folder_ / "missing"}}).message,
      HasSubstr("missing/x-00003-of-00003.gguf"));
  const std::vector<std::string> many(100, folder_ / "a");
  EXPECT_THAT(error_of(model, {.out = folder_ / "x", .folders = many}).message, HasSubstr("100 folders"));
  EXPECT_TRUE(fs::is_empty(folder_ / "a"));

  // A set packed over itself, by whichever shard's name.
  for (int i = 1; i <= 3; ++i) {
    const std::string name = fmt::format("model-{:05}-of-00003.gguf", i);
    fs::copy_file(GoldenCase("mixtral-split").folder + name, folder_ / name);
  }
  const std::string first = folder_ / "model-00001-of-00003.gguf";
  EXPECT_THAT(error_of(first, {.out = folder_ / "model-00002-of-00003.gguf"}).message,
              HasSubstr("model-00002-of-00003.gguf: it is the model"));
  EXPECT_THAT(error_of(first, {.out = folder_ / "model", .folders = {folder_ / "a", folder_ / "b"}}).message,
              HasSubstr("it is the model"));
}

TEST_F(Pack, AStopLeavesNothing) {
  const std::string model = synth("qwen3moe");
  const ModelFile file = std::move(*ModelFile::open(model));
  for (const int64_t most_bytes : {int64_t{0}, int64_t{200'000}}) {
    const auto stopped = pack_model(file, {.out = folder_ / "out", .folders = {folder_ / "a", folder_ / "b"}},
                                    *runtime_, [&](int64_t done, int64_t total) {
                                      EXPECT_LE(done, total);
                                      return done <= most_bytes;
                                    });
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
    EXPECT_TRUE(fs::is_empty(folder_ / "a"));
    EXPECT_FALSE(fs::exists(folder_ / "out-00001-of-00003.gguf"));
  }
  EXPECT_EQ(runtime_->budget().used_bytes(), 0);
}

// A limit on the size of files stands in for a full disk: write fails the same way.
TEST_F(Pack, AFullDiskIsAnErrorAndLeavesNothing) {
  const std::string model = synth("qwen3moe");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1 << 15, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error error = error_of(model, {.out = folder_ / "out", .folders = {folder_ / "a", folder_ / "b"}});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.kind, ErrorKind::kIo) << error.message;
  EXPECT_THAT(error.message, HasSubstr("cannot write"));
  EXPECT_TRUE(fs::is_empty(folder_ / "a"));
  EXPECT_TRUE(fs::is_empty(folder_ / "b"));
}

}  // namespace
}  // namespace soli
