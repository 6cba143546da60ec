// Reading weights into memory: what is packed, what is told while it is, what is counted, and what happens
// when the memory, the type or the file does not suffice.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/rng.h"
#include "base/units.h"
#include "model/parameters.h"
#include "model/weight_loader.h"
#include "support/gguf_rewrite.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

GgufRewrite golden_rewrite(const std::string& name) { return GgufRewrite(GoldenCase(name).model_path()); }

ModelFile open_golden(const std::string& name) {
  return std::move(*ModelFile::open(GoldenCase(name).model_path()));
}

std::unique_ptr<Runtime> make_limited_runtime(int n_threads, int64_t memory_bytes = Budget::kUnlimited) {
  return std::move(*Runtime::create({.n_threads = n_threads, .memory_bytes = memory_bytes}));
}

/// Random finite values of a type: bytes for the ones that may be any, rounded floats for the others.
std::string random_rows(const kernels::WeightKernels& type, int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  std::string data(static_cast<size_t>(rows * type.row_bytes(cols)), '\0');
  std::vector<float> row(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (float& value : row) value = static_cast<float>(rng.next_unit() - 0.5);
    type.quantize_row(row.data(), cols, reinterpret_cast<std::byte*>(data.data()) + r * type.row_bytes(cols));
  }
  return data;
}

/// A file with matrices of several chunks and of less than a strip, of types with blocks of 1 and more.
class Loader : public testing::Test {
 protected:
  struct Matrix {
    std::string name;
    uint32_t type;
    int64_t rows;
    int64_t cols;
  };

  Loader() {
    const kernels::KernelTable& kernels = **kernels::select_kernels("scalar");
    GgufWriter writer;
    for (const Matrix& m : kMatrices)
      EXPECT_TRUE(writer.add_tensor(m.name, m.type, std::vector<int64_t>{m.cols, m.rows}));
    EXPECT_TRUE(writer.begin(path_));
    for (const Matrix& m : kMatrices) {
      data_.push_back(random_rows(*kernels.find(m.type), m.rows, m.cols, data_.size()));
      EXPECT_TRUE(writer.append(std::as_bytes(std::span(data_.back()))));
    }
    EXPECT_TRUE(writer.finish());
    file_ = std::move(*GgufFile::open(path_));
  }

  TensorRows rows_of(size_t i, int64_t first, int64_t rows) const {
    return {file_->find_tensor(kMatrices[i].name), first, rows, kMatrices[i].cols};
  }
  Result<size_t> add_all(WeightLoader& loader) const {
    for (size_t i = 0; i < kMatrices.size(); ++i) {
      const Result<size_t> added = loader.add(rows_of(i, 0, kMatrices[i].rows));
      if (!added) return added;
    }
    return loader.add(rows_of(1, 5, 20));  // some rows of a tensor, as of a fused one
  }

  /// Takes the file out of the page cache.
  void evict() const {
    ::fsync(file_->shard(0).descriptor());
    ::posix_fadvise(file_->shard(0).descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }

  const std::vector<Matrix> kMatrices = {{"large", kGgmlF32, 2000, 1500}, {"odd", kGgmlQ8_0, 37, 96},
                                         {"row", kGgmlF16, 1, 5},         {"half", kGgmlBF16, 16, 6},
                                         {"k", kGgmlQ4_K, 50, 512},       {"one", kGgmlF32, 1, 1}};
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "matrices.gguf";
  std::vector<std::string> data_;
  std::optional<GgufFile> file_;
};

TEST_F(Loader, PacksTheSameBytesOnAnyNumberOfThreadsFromTheCacheAndFromTheDisk) {
  std::string expected;
  for (const int n_threads : {1, 1, 2, 3}) {
    if (!expected.empty()) evict();
    const auto runtime = make_limited_runtime(n_threads);
    WeightLoader loader(*file_, *runtime, "test");
    ASSERT_TRUE(add_all(loader));
    ASSERT_TRUE(loader.load({}));
    const Slab slab = loader.take_slab();
    const std::string bytes(reinterpret_cast<const char*>(slab.data()),
                            static_cast<size_t>(loader.packed_bytes()));
    if (expected.empty()) expected = bytes;
    EXPECT_TRUE(bytes == expected) << n_threads;
  }
}

TEST_F(Loader, KeepsEveryValue) {
  const auto runtime = make_limited_runtime(2);
  WeightLoader loader(*file_, *runtime, "test");
  ASSERT_TRUE(add_all(loader));
  ASSERT_TRUE(loader.load({}));
  const auto expect_rows = [&](size_t number, size_t i, int64_t first) {
    const PackedMatrix& matrix = loader.matrix(number);
    const auto cols = static_cast<size_t>(matrix.cols);
    std::vector<float> ours(cols);
    std::vector<float> expected(cols);
    for (int64_t row = 0; row < matrix.rows; ++row) {
      dequantize_row(matrix, row, ours);
      matrix.type->dequantize_row(reinterpret_cast<const std::byte*>(data_[i].data()) +
                                      (first + row) * matrix.type->row_bytes(matrix.cols),
                                  matrix.cols, expected.data());
      ASSERT_EQ(std::memcmp(ours.data(), expected.data(), cols * sizeof(float)), 0) << i << " " << row;
    }
  };
  for (size_t i = 0; i < kMatrices.size(); ++i) expect_rows(i, i, 0);
  expect_rows(kMatrices.size(), 1, 5);
}

TEST_F(Loader, ProgressGrowsAndEndsAtTheTotal) {
  for (const int n_threads : {1, 3}) {
    const auto runtime = make_limited_runtime(n_threads);
    WeightLoader loader(*file_, *runtime, "test");
    ASSERT_TRUE(add_all(loader));
    int64_t last = 0;
    int64_t last_total = -1;
    ASSERT_TRUE(loader.load([&](int64_t done, int64_t total) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, total);
      EXPECT_TRUE(last_total == -1 || total == last_total);
      last = done;
      last_total = total;
    }));
    EXPECT_EQ(last, last_total);
    EXPECT_GT(last, 2000 * 1500 * 4);
  }
}

TEST_F(Loader, LoadsNothing) {
  const auto runtime = make_limited_runtime(1);
  WeightLoader loader(*file_, *runtime, "test");
  EXPECT_EQ(loader.packed_bytes(), 0);
  EXPECT_TRUE(loader.load({}));
}

TEST_F(Loader, AFailureGivesItsMemoryBack) {
  const auto runtime = make_limited_runtime(3);
  {
    WeightLoader loader(*file_, *runtime, "test");
    ASSERT_TRUE(add_all(loader));
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
    const Status loaded = loader.load({});
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind, ErrorKind::kMalformed);
    EXPECT_THAT(loaded.error().message, AllOf(HasSubstr(path_), HasSubstr("ends early")));
  }
  EXPECT_EQ(runtime->budget().used_bytes(), 0);
}

/// BF16 lies in pairs in memory.
TEST(Weights, OddRowsOfBf16AreRefusedByName) {
  const TemporaryFolder folder;
  const std::string path = folder / "odd.gguf";
  GgufWriter writer;
  ASSERT_TRUE(writer.add_tensor("odd", kGgmlBF16, std::vector<int64_t>{3, 16}));
  ASSERT_TRUE(writer.begin(path));
  ASSERT_TRUE(writer.append(std::vector<std::byte>(96)));
  ASSERT_TRUE(writer.finish());
  const GgufFile file = std::move(*GgufFile::open(path));
  const auto runtime = make_limited_runtime(1);
  WeightLoader loader(file, *runtime, "test");
  const Result<size_t> added = loader.add({file.find_tensor("odd"), 0, 16, 3});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(added.error().message, AllOf(HasSubstr("odd"), HasSubstr("3 elements of BF16")));
}

TEST(Weights, ATypeWithoutKernelsIsNamedAtLoadAndNotBefore) {
  const auto runtime = make_limited_runtime(1);
  uint32_t type = kGgmlF32;
  for (const GgmlType& candidate : ggml_types()) {
    const bool fits = !candidate.retired() && 64 % candidate.block_elements == 0;
    if (fits && runtime->kernels().find(candidate.id) == nullptr) type = candidate.id;
  }
  ASSERT_NE(type, kGgmlF32);
  const TemporaryFolder folder;
  for (const char* name : {"blk.1.attn_output.weight", "blk.0.ffn_norm.weight", "blk.1.ffn_up_exps.weight"}) {
    GgufRewrite file = golden_rewrite("mixtral");
    GgufRewrite::Tensor& tensor = file.tensor(name);
    int64_t n = 1;
    for (const int64_t dim : tensor.dims) n *= dim;
    tensor.type = type;
    tensor.data.assign(
        static_cast<size_t>(n / find_ggml_type(type)->block_elements * find_ggml_type(type)->block_bytes),
        '\0');
    const std::string path = file.write(folder / "model.gguf");
    Result<ModelFile> opened = ModelFile::open(path);
    ASSERT_TRUE(opened) << "inspect shows it: " << opened.error().message;
    EXPECT_EQ(count_parameters(*opened).nominal_total.bytes, opened->gguf().tensor_bytes());
    const auto store = ResidentExpertStore::load(*opened, *runtime, {});
    const bool of_expert = std::string(name).find("exps") != std::string::npos;
    EXPECT_EQ(store.has_value(), !of_expert);
    const auto model = Model::load(std::move(*opened), *runtime, {});
    EXPECT_EQ(model.has_value(), of_expert);
    const Error error = of_expert ? store.error() : model.error();
    EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
    EXPECT_THAT(error.message, AllOf(HasSubstr(path), HasSubstr(name), HasSubstr(ggml_type_name(type)),
                                     HasSubstr("Q4_K"), HasSubstr("F32")));
  }
}

TEST(Weights, ABudgetThatIsTooSmallIsAnErrorThatNamesIt) {
  const auto runtime = make_limited_runtime(2, 64 * kKiB);
  ModelFile file = open_golden("olmoe");
  const auto store = ResidentExpertStore::load(file, *runtime, {});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(store.error().message, AllOf(HasSubstr("experts"), HasSubstr("64.0 KiB")));
  const auto model = Model::load(std::move(file), *runtime, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(model.error().message, AllOf(HasSubstr("weights"), HasSubstr("64.0 KiB")));
  EXPECT_EQ(runtime->budget().used_bytes(), 0);
}

TEST(Weights, WhatIsChargedIsWhatIsPacked) {
  const auto runtime = make_limited_runtime(2);
  ModelFile file = open_golden("olmoe");
  const int64_t bytes = file.gguf().tensor_bytes();
  {
    const auto store = std::move(*ResidentExpertStore::load(file, *runtime, {}));
    const auto model = std::move(*Model::load(std::move(file), *runtime, {}));
    const auto used = runtime->budget().used_by_name();
    // 2 layers of 8 experts of 3 matrices of 32 x 64 floats.
    EXPECT_EQ(used.at("experts"), 2 * 8 * 3 * 32 * 64 * 4);
    EXPECT_LT(used.at("weights") + used.at("experts"), bytes + 32 * kKiB) << "nothing is there twice";
    EXPECT_EQ(runtime->budget().peak_bytes(), runtime->budget().used_bytes());
  }
  EXPECT_EQ(runtime->budget().used_bytes(), 0);
}

TEST(Weights, AFileThatIsWrittenToWhileItIsLoadedIsAnError) {
  const TemporaryFolder folder;
  const auto runtime = make_limited_runtime(2);
  const std::string path = golden_rewrite("mixtral").write(folder / "model.gguf");
  const auto touch = [&](int64_t, int64_t) {
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(10));
    return true;
  };
  ModelFile file = std::move(*ModelFile::open(path));
  const auto store = ResidentExpertStore::load(file, *runtime, touch);
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, AllOf(HasSubstr(path), HasSubstr("was written to")));
  const auto model = Model::load(std::move(file), *runtime, touch);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, AllOf(HasSubstr(path), HasSubstr("was written to")));
}

TEST(Weights, AFileThatShrinksAfterItWasOpenedIsAnError) {
  const TemporaryFolder folder;
  const auto runtime = make_limited_runtime(2);
  for (const char* name : {"mixtral", "qwen2-dense"}) {
    const std::string path = golden_rewrite(name).write(folder / "model.gguf");
    ModelFile file = std::move(*ModelFile::open(path));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 8);
    if (file.spec().is_moe()) {
      const auto store = ResidentExpertStore::load(file, *runtime, {});
      ASSERT_FALSE(store);
      EXPECT_EQ(store.error().kind, ErrorKind::kMalformed);
    }
    const auto model = Model::load(std::move(file), *runtime, {});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().kind, ErrorKind::kMalformed);
    EXPECT_THAT(model.error().message, AllOf(HasSubstr(path), HasSubstr("ends early")));
    EXPECT_EQ(runtime->budget().used_bytes(), 0);
  }
}

TEST(Parameters, EveryElementOfEveryGoldenFileIsCountedOnce) {
  for (const std::string& name : golden_cases()) {
    SCOPED_TRACE(name);
    const ModelFile file = open_golden(name);
    const ParameterCounts counts = count_parameters(file);
    int64_t elements = 0;
    int64_t bytes = 0;
    for (const GgufTensor& tensor : file.gguf().tensors()) {
      // Layers that predict further tokens are not the model's.
      if (tensor.name.starts_with(fmt::format("blk.{}.", file.spec().n_layers))) continue;
      elements += tensor.elements();
      bytes += tensor.bytes;
    }
    EXPECT_EQ(counts.nominal_total.parameters, elements);
    EXPECT_EQ(counts.nominal_total.bytes, bytes);
    PartSize sum;
    for (const PartSize& part : counts.nominal) sum += part;
    EXPECT_EQ(sum.parameters, elements);
    const PartSize active = counts.active_with_k(file.spec());
    EXPECT_LE(active.bytes, counts.nominal_total.bytes + 64 * 4)
        << "a tied row of the embedding is read twice";
  }
}

TEST(Parameters, OfAMixtureByHand) {
  const ModelFile file = open_golden("mixtral");
  const ParameterCounts counts = count_parameters(file);
  const auto of = [&](Part part) { return counts.nominal[static_cast<size_t>(part)].parameters; };
  // 64 hidden, 4 heads of 16, 2 key heads, 8 experts of width 32, 328 tokens, 2 layers.
  constexpr int64_t kAttention = 2 * (64 * 64 + 32 * 64 + 32 * 64 + 64 * 64);
  constexpr int64_t kNorms = 2 * (64 + 64) + 64;
  constexpr int64_t kExpert = 3 * 32 * 64;
  EXPECT_EQ(of(Part::kEmbedding), 328 * 64);
  EXPECT_EQ(of(Part::kOutputHead), 328 * 64);
  EXPECT_EQ(of(Part::kAttention), kAttention);
  EXPECT_EQ(of(Part::kNorms), kNorms);
  EXPECT_EQ(of(Part::kRouter), 2 * 8 * 64);
  EXPECT_EQ(of(Part::kRoutedExperts), 2 * 8 * kExpert);
  EXPECT_EQ(of(Part::kSharedExperts), 0);
  EXPECT_EQ(of(Part::kDenseFfn), 0);
  EXPECT_EQ(counts.expert[1][7].parameters, kExpert);
  EXPECT_EQ(counts.expert[1][7].bytes, 4 * kExpert);
  // One row of the embedding, and two experts per layer.
  constexpr int64_t kAlways = 64 + 328 * 64 + kAttention + kNorms + 2 * 8 * 64;
  EXPECT_EQ(counts.always_active.parameters, kAlways);
  EXPECT_EQ(counts.active_with_k(file.spec()).parameters, kAlways + 2 * 2 * kExpert);
  EXPECT_EQ(counts.active_with_k(file.spec()).bytes, 4 * (kAlways + 2 * 2 * kExpert));
}

TEST(Parameters, OfADenseModelWithATiedHeadByHand) {
  const ModelFile file = open_golden("qwen2-dense");
  ASSERT_TRUE(file.output_is_tied());
  const ParameterCounts counts = count_parameters(file);
  const auto of = [&](Part part) { return counts.nominal[static_cast<size_t>(part)].parameters; };
  // 64 hidden, 4 heads of 16, 2 key heads, a feed-forward of width 160, 286 tokens, 2 layers; biases on q, k,
  // v.
  constexpr int64_t kAttention = 2 * (64 * 64 + 32 * 64 + 32 * 64 + 64 * 64 + 64 + 32 + 32);
  constexpr int64_t kNorms = 2 * (64 + 64) + 64;
  constexpr int64_t kFfn = 2 * 3 * 160 * 64;
  EXPECT_EQ(of(Part::kEmbedding), 286 * 64);
  EXPECT_EQ(of(Part::kOutputHead), 0) << "counted as the embedding";
  EXPECT_EQ(of(Part::kAttention), kAttention);
  EXPECT_EQ(of(Part::kDenseFfn), kFfn);
  EXPECT_EQ(counts.nominal_total.parameters, 286 * 64 + kAttention + kNorms + kFfn);
  EXPECT_EQ(counts.active_with_k(file.spec()).parameters, 64 + 286 * 64 + kAttention + kNorms + kFfn);
  EXPECT_TRUE(counts.expert[0].empty());
}

TEST(Parameters, ExpertsInTensorsOfTheirOwnCountTheSame) {
  const TemporaryFolder folder;
  GgufRewrite split = golden_rewrite("mixtral");
  split.split_experts();
  const ModelFile file = std::move(*ModelFile::open(split.write(folder / "model.gguf")));
  const ParameterCounts ours = count_parameters(file);
  const ParameterCounts merged = count_parameters(open_golden("mixtral"));
  for (size_t part = 0; part < kParts; ++part) {
    EXPECT_EQ(ours.nominal[part].parameters, merged.nominal[part].parameters);
    EXPECT_EQ(ours.nominal[part].bytes, merged.nominal[part].bytes);
  }
}

}  // namespace
}  // namespace soli
