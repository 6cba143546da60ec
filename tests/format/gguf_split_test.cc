// Split sets and what can be wrong with them. Field reports 12, 45.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "format/gguf.h"
#include "io/file.h"
#include "support/gguf_bytes.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::HasSubstr;

std::string split_entry(const std::string& key, uint16_t value) {
  return raw_entry("split." + key, 2, raw(value));
}

class GgufSplit : public testing::Test {
 protected:
  /// Shard `index`, from 0, of a set of `count`, with one tensor "w<index>".
  static GgufBytes shard(uint16_t index, uint16_t count) {
    GgufBytes file;
    file.entries = {split_entry("no", index), split_entry("count", count),
                    split_entry("tensors.count", count)};
    if (index == 0) file.entries.push_back(raw_entry("general.architecture", 8, raw_string("tiny")));
    file.tensors[0].name = fmt::format("w{}", index);
    return file;
  }

  std::string write(const std::string& name, const GgufBytes& file) {
    const std::string bytes = file.bytes();
    EXPECT_TRUE(write_file(folder_ / name, std::as_bytes(std::span(bytes))));
    return folder_ / name;
  }

  std::string write_set() {
    write("m-00001-of-00003.gguf", shard(0, 3));
    write("m-00002-of-00003.gguf", shard(1, 3));
    return write("m-00003-of-00003.gguf", shard(2, 3));
  }

  static std::string error_of(const std::string& path) {
    const auto file = GgufFile::open(path);
    return file ? "(no error)" : file.error().message;
  }

  TemporaryFolder folder_;
};

TEST_F(GgufSplit, KeysComeFromTheFirstShardAndTensorsFromAll) {
  const auto file = GgufFile::open(write_set());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->n_shards(), 3);
  EXPECT_EQ(file->metadata().get_string("general.architecture").value(), "tiny");
  EXPECT_EQ(file->metadata().get_uint("split.no").value(), 0U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(file->find_tensor(fmt::format("w{}", i))->shard, i);
  EXPECT_EQ(file->tensor_bytes(), 3 * 128);
}

TEST_F(GgufSplit, AMissingShardIsNamed) {
  const std::string last = write_set();
  std::filesystem::remove(folder_ / "m-00001-of-00003.gguf");
  const auto file = GgufFile::open(last);
  EXPECT_EQ(file.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(file.error().message,
              HasSubstr("shard 1 of 3 is missing: " + (folder_ / "m-00001-of-00003.gguf")));
}

TEST_F(GgufSplit, ARenamedShardSaysHowItMustBeCalled) {
  write_set();
  const std::string other = write("other.gguf", shard(1, 3));
  EXPECT_THAT(error_of(other),
              HasSubstr("shard 2 of 3 by its metadata, so its name must end in '-00002-of-00003.gguf'"));
}

TEST_F(GgufSplit, ShardsThatDoNotBelongTogether) {
  const std::string last = write_set();
  write("m-00002-of-00003.gguf", shard(2, 3));
  EXPECT_THAT(error_of(last),
              HasSubstr("m-00002-of-00003.gguf: is shard 3 of 3 by its metadata, and shard 2 of 3"));
  write("m-00002-of-00003.gguf", shard(1, 4));
  EXPECT_THAT(error_of(last), HasSubstr("is shard 2 of 4 by its metadata"));
  write("m-00002-of-00003.gguf", GgufBytes());
  EXPECT_THAT(error_of(last), HasSubstr("is shard 1 of 1 by its metadata"));
  GgufBytes twice = shard(1, 3);
  twice.tensors[0].name = "w0";
  write("m-00002-of-00003.gguf", twice);
  EXPECT_THAT(error_of(last), HasSubstr("tensor 'w0' appears twice"));
  GgufBytes none = shard(1, 3);
  none.tensors.clear();
  write("m-00002-of-00003.gguf", none);
  EXPECT_THAT(error_of(last), HasSubstr("split.tensors.count is 3, and the 3 shards have 2 tensors"));
  write("m-00002-of-00003.gguf", [] {
    GgufBytes cut = shard(1, 3);
    cut.data_bytes = 64;
    return cut;
  }());
  EXPECT_THAT(error_of(last), HasSubstr("m-00002-of-00003.gguf: ends early"));
}

TEST_F(GgufSplit, CountsThatCannotBe) {
  GgufBytes file;
  file.entries = {raw_entry("split.count", 4, raw(uint32_t{1'000'000}))};
  EXPECT_THAT(error_of(write("m-00001-of-1000000.gguf", file)),
              HasSubstr("split.count is 1000000; at most 512"));
  file.entries = {split_entry("count", 2), split_entry("no", 2)};
  EXPECT_THAT(error_of(write("m-00003-of-00002.gguf", file)), HasSubstr("split.no is 2, and must be below"));
  file.entries = {raw_entry("split.count", 5, raw(int32_t{-2}))};
  EXPECT_THAT(error_of(write("m.gguf", file)), HasSubstr("'split.count' is -2"));
  file.entries = {raw_entry("split.count", 8, raw_string("../../m"))};
  EXPECT_THAT(error_of(write("m.gguf", file)), HasSubstr("'split.count' is \"../../m\" of type str"));
  file.entries = {split_entry("count", 0)};
  EXPECT_EQ(error_of(write("m.gguf", file)), "(no error)") << "0 is what some writers set for a single file";
}

TEST_F(GgufSplit, NothingInsideAFileChoosesAnotherPath) {
  std::filesystem::create_directory(folder_ / "inner");
  write_set();
  GgufBytes file = shard(1, 3);
  file.entries.push_back(raw_entry("split.name", 8, raw_string("../m")));
  const std::string inner = write("inner/m-00002-of-00003.gguf", file);
  EXPECT_THAT(error_of(inner),
              HasSubstr("shard 1 of 3 is missing: " + (folder_ / "inner/m-00001-of-00003.gguf")));
  EXPECT_EQ(error_of(folder_ / "inner/../m-00002-of-00003.gguf"), "(no error)") << "the user's own path may";
}

TEST(GgufOpen, PathsThatAreNoFile) {
  EXPECT_EQ(GgufFile::open("/nowhere/m.gguf").error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(GgufFile::open("/").error().message, HasSubstr("directory"));
  EXPECT_THAT(GgufFile::open("/dev/null").error().message, HasSubstr("/dev/null"));
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "m.gguf", {}));
  EXPECT_THAT(GgufFile::open(folder / "m.gguf").error().message, HasSubstr("is empty"));
}

}  // namespace
}  // namespace soli
