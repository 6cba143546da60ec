#include "format/gguf_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <limits>
#include <string>
#include <vector>

#include "support/gguf_rewrite.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

std::string golden_path(const std::string& name) { return std::string(SOLI_TEST_DATA) + "/golden/" + name; }

std::string data_of(const GgufFile& file, const GgufTensor& tensor) {
  std::string data(static_cast<size_t>(tensor.bytes), '\0');
  EXPECT_TRUE(file.shard(tensor.shard).read(tensor.offset, std::as_writable_bytes(std::span(data))));
  return data;
}

Status append(GgufWriter& writer, const std::string& bytes) {
  return writer.append(std::as_bytes(std::span(bytes)));
}

TEST(GgufWriter, EveryKindOfValueComesBack) {
  const TemporaryFolder folder;
  GgufWriter writer;
  writer.set("u32", GgufValue::of_uint32(4'000'000'000U));
  writer.set("u64", GgufValue::of_uint64(std::numeric_limits<uint64_t>::max()));
  writer.set("i32", GgufValue::of_int32(-7));
  writer.set("f32", GgufValue::of_float(0.5F));
  writer.set("yes", GgufValue::of_bool(true));
  writer.set("text", GgufValue::of_string("old"));
  writer.set("text", GgufValue::of_string("a\nb"));
  writer.set("list", GgufValue::of_strings(std::vector<std::string>{"", "b", "", "\xFF"}));
  writer.set("none", GgufValue::of_strings({}));
  writer.set("ints", GgufValue::of_int32s(std::vector<int32_t>{-1, 2}));
  writer.set("uints", GgufValue::of_uint32s(std::vector<uint32_t>{3'000'000'000U}));
  writer.set("bits", GgufValue::of_uint64s(std::vector<uint64_t>{UINT64_MAX, 1}));
  writer.set("u16", GgufValue::of_uint16(65'535));
  writer.set("floats", GgufValue::of_floats(std::vector<float>{1.0F, -2.0F}));
  ASSERT_TRUE(writer.begin(folder / "m.gguf"));
  ASSERT_TRUE(writer.finish());

  const auto file = GgufFile::open(folder / "m.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(metadata.size(), 13U);
  EXPECT_EQ(metadata.get_uint64s("bits").value(), (std::vector<uint64_t>{UINT64_MAX, 1}));
  EXPECT_FALSE(metadata.get_uint64s("uints"));
  EXPECT_EQ(metadata.get_uint("u16").value(), 65'535U);
  EXPECT_EQ(metadata.get_uint("u32").value(), 4'000'000'000U);
  EXPECT_EQ(metadata.get_uint("u64").value(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(metadata.get_float("i32").value(), -7.0);
  EXPECT_EQ(metadata.get_float("f32").value(), 0.5);
  EXPECT_EQ(metadata.get_bool("yes").value(), true);
  EXPECT_EQ(metadata.get_string("text").value(), "a\nb");
  const GgufStrings list = metadata.get_strings("list").value();
  EXPECT_EQ(std::vector<std::string_view>(list.begin(), list.end()),
            (std::vector<std::string_view>{"", "b", "", "\xFF"}));
  EXPECT_TRUE(metadata.get_strings("none").value().empty());
  EXPECT_EQ(metadata.get_ints("ints").value(), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(metadata.get_ints("uints").value(), (std::vector<int64_t>{3'000'000'000}));
  EXPECT_EQ(metadata.get_floats("floats").value(), (std::vector<float>{1.0F, -2.0F}));
}

TEST(GgufWriter, CopiesAGoldenModelBitForBit) {
  const TemporaryFolder folder;
  for (const char* name : {"qwen3moe-mix-q4_k_m/model.gguf", "mixtral-split/model-00001-of-00003.gguf"}) {
    const auto original = GgufFile::open(golden_path(name));
    const auto copy = GgufFile::open(GgufRewrite(golden_path(name)).write(folder / "copy.gguf"));
    ASSERT_TRUE(copy) << copy.error().message;
    EXPECT_EQ(copy->tensor_bytes(), original->tensor_bytes());
    ASSERT_EQ(copy->tensors().size(), original->tensors().size());
    for (const GgufTensor& tensor : original->tensors()) {
      const GgufTensor* other = copy->find_tensor(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_EQ(other->type, tensor.type);
      EXPECT_EQ(other->dims, tensor.dims);
      EXPECT_EQ(data_of(*copy, *other), data_of(*original, tensor)) << tensor.name;
    }
  }
}

TEST(GgufWriter, PadsEachTensorAndTakesDataInAnyPieces) {
  const TemporaryFolder folder;
  GgufWriter writer;
  ASSERT_TRUE(writer.add_tensor("a", kGgmlI8, std::vector<int64_t>{33}));
  ASSERT_TRUE(writer.add_tensor("b", kGgmlF16, std::vector<int64_t>{1, 1, 1, 5}));
  ASSERT_TRUE(writer.begin(folder / "m.gguf"));
  ASSERT_TRUE(append(writer, std::string(32, 'x')));
  ASSERT_TRUE(append(writer, ""));
  ASSERT_TRUE(append(writer, "y"));
  ASSERT_TRUE(append(writer, "0123456789"));
  ASSERT_TRUE(writer.finish());
  const auto file = GgufFile::open(folder / "m.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->file_bytes(), writer.file_bytes());
  EXPECT_EQ(file->tensors()[1].offset, file->tensors()[0].offset + 64);
  EXPECT_EQ(file->tensors()[1].offset, writer.tensors()[1].offset);
  EXPECT_EQ(data_of(*file, file->tensors()[0]), std::string(32, 'x') + "y");
  EXPECT_EQ(data_of(*file, file->tensors()[1]), "0123456789");
}

TEST(GgufWriter, AlignsAsItIsToldAndReplacesValuesOnceTheDataIsThere) {
  const TemporaryFolder folder;
  GgufWriter writer;
  writer.set("before", GgufValue::of_string("x"));
  writer.set("sums", GgufValue::of_uint64s(std::vector<uint64_t>{0, 0}));
  writer.set("after", GgufValue::of_string("y"));
  writer.set_alignment(64);
  writer.set_alignment(8192);
  ASSERT_TRUE(writer.add_tensor("a", kGgmlI8, std::vector<int64_t>{5}));
  ASSERT_TRUE(writer.add_tensor("b", kGgmlI8, std::vector<int64_t>{3}));
  ASSERT_TRUE(writer.begin(folder / "m.gguf"));
  ASSERT_TRUE(append(writer, "01234"));
  ASSERT_TRUE(append(writer, "abc"));
  ASSERT_TRUE(writer.replace("sums", GgufValue::of_uint64s(std::vector<uint64_t>{7, UINT64_MAX})));
  ASSERT_TRUE(writer.finish());
  const auto file = GgufFile::open(folder / "m.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->metadata().get_uint("general.alignment").value(), 8192U);
  EXPECT_EQ(file->metadata().get_string("before").value(), "x");
  EXPECT_EQ(file->metadata().get_uint64s("sums").value(), (std::vector<uint64_t>{7, UINT64_MAX}));
  EXPECT_EQ(file->metadata().get_string("after").value(), "y");
  EXPECT_EQ(file->tensors()[0].offset, 8192);
  EXPECT_EQ(file->tensors()[1].offset, 16384);
  EXPECT_EQ(data_of(*file, file->tensors()[1]), "abc");
  EXPECT_EQ(file->file_bytes(), writer.file_bytes());
}

TEST(GgufWriter, RefusesShapesThatTheFormatCannotStore) {
  GgufWriter writer;
  const auto refused = [&](const std::string& name, uint32_t type, std::vector<int64_t> dims) {
    const Status status = writer.add_tensor(name, type, dims);
    return status ? std::string() : status.error().message;
  };
  EXPECT_NE(refused("w", kGgmlQ4_K, {128}).find("'w': has rows of 128"), std::string::npos);
  EXPECT_NE(refused("w", 36, {32}).find("retired"), std::string::npos);
  EXPECT_NE(refused("w", 99, {32}), "");
  EXPECT_NE(refused("w", kGgmlF32, {}), "");
  EXPECT_NE(refused("w", kGgmlF32, {1, 1, 1, 1, 1}), "");
  EXPECT_NE(refused("w", kGgmlF32, {0}), "");
  EXPECT_NE(refused("w", kGgmlF32, {int64_t{1} << 40, int64_t{1} << 40}), "");
  EXPECT_NE(refused("", kGgmlF32, {1}), "");
  EXPECT_NE(refused(std::string(256, 'a'), kGgmlF32, {1}), "");
}

TEST(GgufWriter, AGivenUpFileLeavesNothing) {
  const TemporaryFolder folder;
  {
    GgufWriter writer;
    ASSERT_TRUE(writer.add_tensor("a", kGgmlI8, std::vector<int64_t>{33}));
    ASSERT_TRUE(writer.begin(folder / "m.gguf"));
    ASSERT_TRUE(append(writer, "x"));
    EXPECT_FALSE(folder.empty());
  }
  EXPECT_TRUE(folder.empty());
  GgufWriter writer;
  EXPECT_EQ(writer.begin(folder / "missing/m.gguf").error().kind, ErrorKind::kNotFound);
}

// A limit on the size of files stands in for a full disk: write fails the same way.
TEST(GgufWriter, AFullDiskIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1 << 20, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status;
  {
    GgufWriter writer;
    ASSERT_TRUE(writer.add_tensor("a", kGgmlI8, std::vector<int64_t>{4 << 20}));
    ASSERT_TRUE(writer.begin(folder / "m.gguf"));
    for (int i = 0; i < 4 && status; ++i) status = append(writer, std::string(1 << 20, 'x'));
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kIo);
  EXPECT_NE(status.error().message.find(folder / "m.gguf: cannot write"), std::string::npos)
      << status.error().message;
  EXPECT_TRUE(folder.empty());
}

TEST(GgufRewrite, SplitsExpertsInStringOrder) {
  const TemporaryFolder folder;
  const auto merged = GgufFile::open(golden_path("mixtral/model.gguf"));
  const auto split =
      GgufFile::open(GgufRewrite(golden_path("mixtral/model.gguf")).split_experts().write(folder / "m.gguf"));
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(split->find_tensor("blk.0.ffn_gate_exps.weight"), nullptr);
  EXPECT_EQ(split->tensor_bytes(), merged->tensor_bytes());
  const GgufTensor* all = merged->find_tensor("blk.1.ffn_down_exps.weight");
  ASSERT_NE(all, nullptr);
  std::string joined;
  for (int e = 0; e < all->dims[2]; ++e) {
    const GgufTensor* one = split->find_tensor("blk.1.ffn_down." + std::to_string(e) + ".weight");
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one->dims[0], all->dims[0]);
    EXPECT_EQ(one->dims[1], all->dims[1]);
    joined += data_of(*split, *one);
  }
  EXPECT_EQ(joined, data_of(*merged, *all));
}

}  // namespace
}  // namespace soli
