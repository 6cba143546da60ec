#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "format/gguf.h"

namespace soli {
namespace {

std::string golden(const std::string& name) { return std::string(SOLI_TEST_DATA) + "/golden/" + name; }

TEST(GgufGolden, EveryModelOpensAndItsTensorsFillIt) {
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(golden(""))) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::open(entry.path());
    ASSERT_TRUE(file) << file.error().message;
    ++models;
    EXPECT_EQ(file->version(), 3U);
    EXPECT_EQ(file->metadata().get_string("general.architecture").value().empty(), false);
    int64_t bytes = 0;
    for (const GgufTensor& tensor : file->tensors()) {
      bytes += tensor.bytes;
      EXPECT_EQ(tensor.bytes, tensor.row_bytes() * (tensor.elements() / tensor.dims[0]));
      EXPECT_EQ(file->find_tensor(tensor.name), &tensor);
      EXPECT_EQ(tensor.offset % 32, 0);
    }
    EXPECT_EQ(bytes, file->tensor_bytes());
    EXPECT_LT(file->tensor_bytes(), file->file_bytes());
    EXPECT_GT(file->tensor_bytes(), file->file_bytes() / 2);
    EXPECT_EQ(file->metadata().listing().size(), file->metadata().size());
    EXPECT_EQ(file->metadata().get_strings("tokenizer.ggml.tokens").value().size(),
              static_cast<size_t>(file->find_tensor("token_embd.weight")->dims[1]));
  }
  EXPECT_GE(models, 18) << "15 single files and a set of three";
}

TEST(GgufGolden, AnyShardOpensTheSet) {
  const auto first = GgufFile::open(golden("mixtral-split/model-00001-of-00003.gguf"));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->n_shards(), 3);
  for (const char* name : {"model-00002-of-00003.gguf", "model-00003-of-00003.gguf"}) {
    const auto other = GgufFile::open(golden(std::string("mixtral-split/") + name));
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_EQ(other->path(), first->path());
    EXPECT_EQ(other->file_bytes(), first->file_bytes());
    ASSERT_EQ(other->tensors().size(), first->tensors().size());
    for (size_t i = 0; i < first->tensors().size(); ++i) {
      EXPECT_EQ(other->tensors()[i].name, first->tensors()[i].name);
      EXPECT_EQ(other->tensors()[i].shard, first->tensors()[i].shard);
      EXPECT_EQ(other->tensors()[i].offset, first->tensors()[i].offset);
    }
    EXPECT_EQ(other->metadata().size(), first->metadata().size());
  }
  EXPECT_EQ(first->metadata().get_uint("llama.expert_count").value(), 4U);
  EXPECT_EQ(first->tensors().back().shard, 2);
}

}  // namespace
}  // namespace soli
