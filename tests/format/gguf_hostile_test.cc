// Files that lie, are cut, or are no GGUF at all: each is a clear error. Field reports 15, 42, 43, 45.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "format/gguf_parse.h"
#include "support/gguf_bytes.h"
#include "support/memory_source.h"

namespace soli {
namespace {

using testing::HasSubstr;

constexpr uint64_t kHuge[] = {uint64_t{1} << 32, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()};

Result<GgufShard> parse(std::string_view bytes) {
  GgufAllowance allowance;
  return parse_gguf(MemorySource(bytes), "m.gguf", allowance);
}

/// The error of a file, without the name of the file that every error begins with.
std::string gguf_error_of(std::string_view bytes) {
  const auto shard = parse(bytes);
  if (shard) return "(no error)";
  EXPECT_THAT(shard.error().message, testing::StartsWith("m.gguf: "));
  EXPECT_THAT(shard.error().message, testing::Not(HasSubstr("m.gguf: m.gguf"))) << "names the file once";
  return shard.error().message.substr(8);
}

std::string gguf_error_of(const GgufBytes& file) { return gguf_error_of(file.bytes()); }

std::string error_of_entry(const std::string& entry) {
  GgufBytes file;
  file.entries = {entry};
  return gguf_error_of(file);
}

std::string error_of_tensor(const GgufBytes::Tensor& tensor) {
  GgufBytes file;
  file.tensors = {tensor};
  return gguf_error_of(file);
}

TEST(GgufHostile, TheTinyFileItselfIsFine) {
  for (const uint32_t version : {2U, 3U}) {
    GgufBytes file;
    file.version = version;
    const auto shard = parse(file.bytes());
    ASSERT_TRUE(shard) << shard.error().message;
    EXPECT_EQ(shard->version, version);
    EXPECT_EQ(shard->metadata.get_uint("a").value(), 7U);
    EXPECT_EQ(shard->tensors.front().bytes, 128);
  }
}

TEST(GgufHostile, CutAtEveryByte) {
  GgufBytes file;
  file.entries = {raw_entry("a", 4, raw(uint32_t{7})),
                  raw_array("b", 8, 2, raw_string("x") + raw_string("yz")),
                  raw_array("c", 6, 2, raw(1.0F) + raw(2.0F)), raw_entry("d", 8, raw_string("text"))};
  file.tensors = {{.name = "v"}, {.name = "w", .offset = 128}};
  file.data_bytes = 256;
  const std::string bytes = file.bytes();
  ASSERT_TRUE(parse(bytes));
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse(bytes.substr(0, n))) << n;
  EXPECT_THAT(gguf_error_of(bytes.substr(0, bytes.size() - 1)),
              HasSubstr("ends early: tensor 'w' takes 128 bytes"));
}

TEST(GgufHostile, EveryByteChangedIsAnErrorOrAFile) {
  const std::string bytes = GgufBytes().bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      const auto shard = parse(changed);
      if (!shard) continue;
      for (const GgufTensor& tensor : shard->tensors) {
        EXPECT_LE(tensor.offset + tensor.bytes, static_cast<int64_t>(bytes.size()));
        EXPECT_EQ(tensor.bytes, tensor.row_bytes() * (tensor.elements() / tensor.dims[0]));
      }
    }
  }
}

TEST(GgufHostile, OtherKindsOfFile) {
  EXPECT_THAT(gguf_error_of(std::string_view()), HasSubstr("is empty"));
  EXPECT_THAT(gguf_error_of("GGU"), HasSubstr("not a GGUF"));
  EXPECT_THAT(gguf_error_of("# A text\nabout models"), HasSubstr("starts with '# A ' instead of 'GGUF'"));
  EXPECT_THAT(gguf_error_of("\x01\x02\xFF\x00 and more"), HasSubstr("\\x01\\x02\\xFF"));
  EXPECT_THAT(gguf_error_of(raw(uint64_t{30}) + "{\"w\":{\"dtype\":\"F32\"}}"), HasSubstr("safetensors"));
  EXPECT_THAT(gguf_error_of("tjgg\x03\x00\x00\x00"), HasSubstr("before GGUF"));
  GgufBytes file;
  file.magic = "FUGG";
  EXPECT_THAT(gguf_error_of(file), HasSubstr("big-endian"));
  file = {};
  file.version = 0x03000000;
  EXPECT_THAT(gguf_error_of(file), HasSubstr("big-endian"));
  for (const uint32_t version : {0U, 1U, 4U, 77U}) {
    file.version = version;
    EXPECT_THAT(gguf_error_of(file), HasSubstr(fmt::format("version {}; versions 2 and 3", version)));
  }
}

TEST(GgufHostile, CountsThatCannotBe) {
  for (const uint64_t count : kHuge) {
    GgufBytes file;
    file.tensor_count = count;
    EXPECT_THAT(gguf_error_of(file), HasSubstr(fmt::format("claims {} tensors; at most", count)));
    file = {};
    file.key_count = count;
    EXPECT_THAT(gguf_error_of(file), HasSubstr(fmt::format("claims {} metadata keys; at most", count)));
    EXPECT_THAT(error_of_entry(raw_array("k", 0, count, "x")), HasSubstr("key 'k' claims"));
    EXPECT_THAT(error_of_entry(raw_array("k", 12, count, "x")), HasSubstr("key 'k' claims"));
    EXPECT_THAT(error_of_entry(raw_array("k", 8, count, raw_string("x"))), HasSubstr("key 'k' claims"));
  }
  GgufBytes file;
  file.tensor_count = 60'000;
  EXPECT_THAT(gguf_error_of(file), HasSubstr("have no room"));
  file = {};
  file.key_count = 60'000;
  EXPECT_THAT(gguf_error_of(file), HasSubstr("have no room"));
  file.key_count = 3;
  EXPECT_NE(gguf_error_of(file), "(no error)");
  EXPECT_THAT(error_of_entry(raw_array("k", 12, (uint64_t{1} << 61) + 1, std::string(8, 'x'))),
              HasSubstr("key 'k' claims"))
      << "count x size wraps to 8";
}

TEST(GgufHostile, StringsLongerThanTheFile) {
  const size_t size = GgufBytes().bytes().size();
  for (const uint64_t length : {uint64_t{size} + 1, kHuge[0], kHuge[1], kHuge[2]}) {
    EXPECT_THAT(error_of_entry(raw_string("k", length) + raw(uint32_t{4}) + raw(uint32_t{7})),
                HasSubstr("ends early"));
    EXPECT_THAT(error_of_entry(raw_entry("k", 8, raw_string("v", length))),
                HasSubstr("ends early: metadata key 'k'"));
    EXPECT_THAT(error_of_entry(raw_array("k", 8, 1, raw_string("v", length))), HasSubstr("ends early"));
  }
  EXPECT_THAT(error_of_entry(raw_entry(std::string(256, 'k'), 4, raw(uint32_t{7}))),
              HasSubstr("at most 255"));
  EXPECT_THAT(error_of_tensor({.name = std::string(256, 'w')}), HasSubstr("at most 255"));
}

TEST(GgufHostile, NamesThatAreNone) {
  EXPECT_THAT(error_of_entry(raw_entry("", 4, raw(uint32_t{7}))),
              HasSubstr("name of metadata key 0 is empty"));
  EXPECT_THAT(error_of_entry(raw_entry("k\xC0\xAF", 4, raw(uint32_t{7}))),
              HasSubstr("not valid UTF-8: 'k\\xC0\\xAF'"));
  EXPECT_THAT(error_of_entry(raw_entry("k\n", 4, raw(uint32_t{7}))), HasSubstr("control character: 'k\\n'"));
  EXPECT_THAT(error_of_entry(raw_entry("k\xC2\x9F", 4, raw(uint32_t{7}))),
              HasSubstr("control character: 'k\\xC2\\x9F'"));
  EXPECT_THAT(error_of_tensor({.name = ""}), HasSubstr("name of tensor 0 is empty"));
  EXPECT_THAT(error_of_tensor({.name = "w\xED\xA0\x80"}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error_of_tensor({.name = std::string("w\0", 2)}), HasSubstr("control character"));
  GgufBytes file;
  file.entries.push_back(file.entries[0]);
  EXPECT_THAT(gguf_error_of(file), HasSubstr("metadata key 'a' appears twice"));
}

TEST(GgufHostile, ValuesThatTheFormatDoesNotHave) {
  EXPECT_THAT(error_of_entry(raw_entry("k", 7, "\x02")),
              HasSubstr("key 'k' has a bool of 2; 0 and 1 are allowed"));
  EXPECT_THAT(error_of_entry(raw_array("k", 7, 3, std::string("\0\1\xFF", 3))), HasSubstr("bool of 255"));
  EXPECT_THAT(error_of_entry(raw_entry("k", 13, raw(uint64_t{7}))), HasSubstr("type 13"));
  EXPECT_THAT(error_of_entry(raw_array("k", 255, 1, "x")), HasSubstr("type 255"));
}

TEST(GgufHostile, ArraysOfArrays) {
  std::string nested;
  for (int depth = 0; depth < 10'000; ++depth) nested += raw(uint32_t{9}) + raw(uint64_t{1});
  nested += raw(uint32_t{0}) + raw(uint64_t{0});
  EXPECT_THAT(error_of_entry(raw_entry("k", 9, nested)), HasSubstr("key 'k' is an array of arrays"));
}

TEST(GgufHostile, ShapesThatCannotBe) {
  for (const uint32_t n_dims : {0U, 5U, 1U << 31, ~0U}) {
    EXPECT_THAT(error_of_tensor({.n_dims = n_dims}),
                HasSubstr(fmt::format("tensor 'w' has {} dimensions; 1 to 4 are allowed", n_dims)));
  }
  const int64_t big = int64_t{1} << 32;
  EXPECT_THAT(error_of_tensor({.dims = {0}}), HasSubstr("'w' has a dimension of 0"));
  EXPECT_THAT(error_of_tensor({.dims = {32, -1}}), HasSubstr("'w' has a dimension of -1"));
  EXPECT_THAT(error_of_tensor({.dims = {32, std::numeric_limits<int64_t>::min()}}),
              HasSubstr("'w' has a dimension of -"));
  EXPECT_THAT(error_of_tensor({.dims = {big, big}}), HasSubstr("'w': has the impossible shape"));
  EXPECT_THAT(error_of_tensor({.dims = {big, big, big, big}}), HasSubstr("'w': has the impossible shape"));
  EXPECT_THAT(error_of_tensor({.dims = {int64_t{1} << 62}}), HasSubstr("'w': has the impossible shape"))
      << "x 4 bytes";
  EXPECT_THAT(error_of_tensor({.dims = {int64_t{1} << 62, 4}, .type = kGgmlTQ1_0}),
              HasSubstr("impossible shape"))
      << "bytes fit, elements do not";
  EXPECT_THAT(error_of_tensor({.dims = {33}, .type = kGgmlQ8_0}), HasSubstr("'w': has rows of 33 elements"));
  EXPECT_THAT(error_of_tensor({.dims = {128, 2}, .type = kGgmlQ4_K}), HasSubstr("stores blocks of 256"))
      << "a block may not span rows";
}

TEST(GgufHostile, TypesThatAreUnknownOrRetired) {
  for (const uint32_t type : {43U, 99U, 1U << 31, ~0U}) {
    EXPECT_THAT(error_of_tensor({.type = type}),
                HasSubstr(fmt::format("tensor 'w': has the unknown type {}", type)));
  }
  for (const uint32_t type : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U}) {
    EXPECT_THAT(error_of_tensor({.type = type}), HasSubstr("was retired")) << type;
    EXPECT_THAT(error_of_tensor({.type = type}), HasSubstr("tensor 'w'"));
  }
}

TEST(GgufHostile, OffsetsThatLeadElsewhere) {
  EXPECT_THAT(error_of_tensor({.offset = 16}), HasSubstr("'w' has offset 16, which is not a multiple"));
  EXPECT_THAT(error_of_tensor({.offset = 32}), HasSubstr("ends early: tensor 'w'"));
  for (const uint64_t offset : {kHuge[0], kHuge[1], kHuge[2] - 31}) {
    EXPECT_THAT(error_of_tensor({.offset = offset}), HasSubstr("past the end"));
  }
  GgufBytes file;
  file.data_bytes = 256;
  file.tensors = {{.name = "v", .offset = 96}, {.name = "w", .offset = 0}};
  EXPECT_THAT(gguf_error_of(file), HasSubstr("tensors 'w' and 'v' overlap"));
  file.tensors[0].offset = 128;
  EXPECT_EQ(gguf_error_of(file), "(no error)") << "out of order is allowed";
}

TEST(GgufHostile, AlignmentsThatAreNone) {
  const auto error_of_alignment = [](uint32_t type, const std::string& value) {
    return error_of_entry(raw_entry("general.alignment", type, value));
  };
  for (const uint32_t alignment : {0U, 1U, 3U, 33U, 1U << 31}) {
    EXPECT_THAT(error_of_alignment(4, raw(alignment)),
                HasSubstr(fmt::format("general.alignment is {}", alignment)));
  }
  EXPECT_THAT(error_of_alignment(8, raw_string("32")),
              HasSubstr("'general.alignment' is \"32\" of type str"));
  EXPECT_THAT(error_of_alignment(5, raw(int32_t{-32})), HasSubstr("-32 of type i32"));
  GgufBytes file;
  file.entries = {raw_entry("general.alignment", 4, raw(uint32_t{1024}))};
  file.alignment = 1024;
  const auto shard = parse(file.bytes());
  ASSERT_TRUE(shard) << shard.error().message;
  EXPECT_EQ(shard->tensors.front().offset, 1024);
}

}  // namespace
}  // namespace soli
