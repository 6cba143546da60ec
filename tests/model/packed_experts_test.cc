// Packed files as they are read: what they count, where their experts lie, what is found out when they are
// damaged, and that every lie of their keys and tensors gets an error that names it.

#include "model/packed_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/pack.h"
#include "model/packed_loader.h"
#include "model/parameters.h"
#include "model/synth.h"
#include "support/gguf_rewrite.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PackedFile : public testing::Test {
 protected:
  PackedFile() {
    // One dense layer, then two with experts.
    SynthOptions options = std::move(*tiny_synth("deepseek2"));
    options.spec.n_layers = 3;
    options.spec.n_leading_dense_layers = 1;
    options.types = SynthOptions::uniform_types(kGgmlQ8_0);
    EXPECT_TRUE(write_synthetic_model(options, plain_path_, *runtime_, {}));
    const ModelFile file = std::move(*ModelFile::open(plain_path_));
    const auto packed = pack_model(file, {.out = path_}, *runtime_, {});
    EXPECT_TRUE(packed) << packed.error().message;
  }

  ModelFile open(const std::string& path) const {
    Result<ModelFile> file = ModelFile::open(path);
    SOLI_CHECK(file.has_value(), "{}", file.error().message);
    return std::move(*file);
  }
  GgufRewrite rewrite() const { return GgufRewrite(path_); }
  /// The error that opening such a file gives; it always names the file.
  Error error_of(const GgufRewrite& file) const {
    const std::string path = folder_ / "changed.gguf";
    const Result<ModelFile> opened = ModelFile::open(file.write(path));
    if (opened) return {ErrorKind::kInvalidArgument, "opened"};
    EXPECT_THAT(opened.error().message, testing::StartsWith(path + ": "));
    return opened.error();
  }
  std::string message_of(const GgufRewrite& file) const { return error_of(file).message; }

  const TemporaryFolder folder_;
  const std::string plain_path_ = folder_ / "plain.gguf";
  const std::string path_ = folder_ / "packed.gguf";
  const std::unique_ptr<Runtime> runtime_ = std::move(*Runtime::create({.n_threads = 2}));
};

TEST_F(PackedFile, CountsWhatThePlainFileCounts) {
  const ModelFile plain = open(plain_path_);
  const ModelFile packed = open(path_);
  EXPECT_EQ(packed.spec(), plain.spec());
  EXPECT_EQ(plain.packed(), nullptr);
  EXPECT_EQ(plain.extent(1, 0), nullptr);
  const ParameterCounts a = count_parameters(plain);
  const ParameterCounts b = count_parameters(packed);
  const auto same = [](const PartSize& x, const PartSize& y) {
    return x.parameters == y.parameters && x.bytes == y.bytes;
  };
  for (size_t part = 0; part < kParts; ++part) EXPECT_TRUE(same(a.nominal[part], b.nominal[part])) << part;
  EXPECT_TRUE(same(a.nominal_total, b.nominal_total));
  EXPECT_TRUE(same(a.always_active, b.always_active));
  for (int64_t layer = 0; layer < plain.spec().n_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    ASSERT_EQ(a.expert[l].size(), b.expert[l].size());
    for (size_t e = 0; e < a.expert[l].size(); ++e) EXPECT_TRUE(same(a.expert[l][e], b.expert[l][e]));
  }
  EXPECT_EQ(plain.tensors().size(), packed.tensors().size());
}

TEST_F(PackedFile, ExtentsAreAlignedAndFollowOneAnother) {
  const ModelFile file = open(path_);
  EXPECT_EQ(file.extent(0, 0), nullptr);  // a dense layer
  for (const int64_t layer : {1, 2}) {
    const GgufTensor& tensor = *file.gguf().find_tensor(packed_tensor_name(layer, 0, 1));
    for (int64_t e = 0; e < file.spec().router.n_experts; ++e) {
      const ExpertExtent& extent = *file.extent(layer, e);
      EXPECT_EQ(extent.offset, tensor.offset + e * extent.bytes);
      EXPECT_EQ(extent.offset % kExtentAlignment, 0);
      EXPECT_EQ(extent.bytes % kExtentAlignment, 0);
      for (size_t m = 0; m < kExpertMatrices; ++m) {
        EXPECT_EQ(extent.matrix_offsets[m] % 64, 0);
        EXPECT_LT(extent.matrix_offsets[m], extent.bytes);
      }
    }
  }
}

TEST_F(PackedFile, AFlippedByteIsFoundWhereverItIs) {
  const ModelFile file = open(path_);
  const ExpertExtent extent = *file.extent(2, 3);
  for (const int64_t at : {int64_t{0}, extent.matrix_offsets[1] + 7, extent.bytes - 1}) {
    const std::string path = folder_ / "damaged.gguf";
    std::filesystem::copy_file(path_, path, std::filesystem::copy_options::overwrite_existing);
    {
      std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(extent.offset + at);
      const auto changed = static_cast<char>(bytes.get() ^ 0x10);
      bytes.seekp(extent.offset + at);
      bytes.put(changed);
    }
    const ModelFile damaged = open(path);
    const auto store = ResidentExpertStore::load(damaged, *runtime_, {});
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().kind, ErrorKind::kMalformed);
    EXPECT_THAT(store.error().message,
                AllOf(HasSubstr(path + ": layer 2, expert 3: damaged"), HasSubstr("soli.pack.checksums")));
    EXPECT_EQ(runtime_->budget().used_bytes(), 0);
    const auto damage = find_damage(damaged, *runtime_, {});
    ASSERT_TRUE(damage) << damage.error().message;
    ASSERT_EQ(damage->size(), 1U);
    EXPECT_THAT(damage->front(), HasSubstr("layer 2, expert 3: damaged"));
  }
  EXPECT_TRUE(find_damage(file, *runtime_, {})->empty());
}

TEST_F(PackedFile, AWrongChecksumIsDamageToo) {
  auto checksums = *open(path_).gguf().metadata().get_uint64s(kPackChecksumsKey);
  checksums[1] ^= 1;
  checksums.back() ^= 1;
  const std::string path = folder_ / "changed.gguf";
  rewrite().set("soli.pack.checksums", GgufValue::of_uint64s(checksums)).write(path);
  const auto damage = find_damage(open(path), *runtime_, {});
  ASSERT_EQ(damage->size(), 2U);
  EXPECT_THAT(damage->at(0), HasSubstr("layer 1, expert 1"));
  EXPECT_THAT(damage->at(1), HasSubstr("layer 2, expert "));
}

TEST_F(PackedFile, ChargesItsExtentsAndNoMore) {
  const ModelFile file = open(path_);
  const auto store = ResidentExpertStore::load(file, *runtime_, {});
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(runtime_->budget().used_bytes(),
            Slab::charged_bytes(*count_extent_bytes(file, runtime_->kernels())));
  const auto small = std::move(*Runtime::create({.n_threads = 1, .memory_bytes = 4096}));
  EXPECT_EQ(ResidentExpertStore::load(file, *small, {}).error().kind, ErrorKind::kLimit);
}

TEST_F(PackedFile, KeysThatLieAreNamed) {
  const auto of_u32 = [](uint32_t value) { return GgufValue::of_uint32(value); };
  const auto types = [](std::vector<int32_t> values) { return GgufValue::of_int32s(values); };
  const std::vector<std::tuple<std::string, GgufValue, std::string>> cases = {
      {"version", of_u32(2), "soli.pack.version: 2 is not supported; 1 is"},
      {"version", of_u32(0), "soli.pack.version: 0 is not supported"},
      {"version", GgufValue::of_string("1"), "'soli.pack.version' is \"1\" of type str"},
      {"layout", GgufValue::of_string("x\x1b[31m"), "soli.pack.layout: 'x"},
      {"layout", of_u32(16), "'soli.pack.layout' is 16 of type u32"},
      {"stripes", of_u32(0), "soli.pack.stripes: 0 is not allowed; 1 to"},
      {"stripes", GgufValue::of_uint64(UINT64_MAX), "soli.pack.stripes: 18446744073709551615"},
      {"stripes", of_u32(2), "tensor blk.1.ffn_experts.packed.0 is missing, and soli.pack.stripes"},
      {"expert_width", of_u32(0), "soli.pack.expert_width: 0 is not allowed"},
      {"expert_width", GgufValue::of_uint64(uint64_t{1} << 40), "soli.pack.expert_width: 1099511627776"},
      {"expert_width", GgufValue::of_uint64(uint64_t{1} << 29), "tensor blk.1.ffn_experts.packed: its shape"},
      {"expert_width", of_u32(33), "soli.pack.down_types: layer 1"},  // no whole blocks
      {"gate_types", types({8}), "soli.pack.gate_types: it has 1 values, and the model has 2 layers"},
      {"up_types", types({8, 8, 8}), "soli.pack.up_types: it has 3 values"},
      {"down_types", types({8, -1}), "soli.pack.down_types: layer 2: type -1 does not exist"},
      {"down_types", types({99, 8}), "soli.pack.down_types: layer 1"},
      {"down_types", types({8, 4}), "soli.pack.down_types: layer 2"},  // retired
      {"down_types", types({8, 0}), "tensor blk.2.ffn_experts.packed: its shape"},
      {"down_types", GgufValue::of_floats(std::vector<float>{8, 8}), "'soli.pack.down_types'"},
      {"checksums", GgufValue::of_uint64s(std::vector<uint64_t>{1}), "soli.pack.checksums: it has 1 values"},
      {"checksums", GgufValue::of_uint64s({}), "soli.pack.checksums: it has 0 values"},
      {"checksums", types({1, 2}), "must be an array of u64"},
  };
  for (const auto& [key, value, part] : cases) {
    const std::string message = message_of(rewrite().set("soli.pack." + key, value));
    EXPECT_THAT(message, HasSubstr(part));
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  for (const char* key : {"layout", "expert_width", "gate_types", "up_types", "down_types", "checksums"}) {
    const Error error = error_of(rewrite().remove(std::string("soli.pack.") + key));
    EXPECT_EQ(error.kind, ErrorKind::kNotFound);
    EXPECT_THAT(error.message, HasSubstr(std::string("'soli.pack.") + key + "' is missing"));
  }
}

TEST_F(PackedFile, TensorsThatDoNotFitAreNamed) {
  const std::string name = "blk.2.ffn_experts.packed";
  const auto with_dims = [&](std::vector<int64_t> dims) {
    GgufRewrite file = rewrite();
    GgufRewrite::Tensor& tensor = file.tensor(name);
    int64_t bytes = 1;
    for (const int64_t dim : dims) bytes *= dim;
    tensor.dims = std::move(dims);
    tensor.data.resize(static_cast<size_t>(bytes));
    return message_of(file);
  };
  const std::vector<int64_t> dims = rewrite().tensor(name).dims;
  EXPECT_EQ(with_dims(dims), "opened");
  const auto misshapen = AllOf(HasSubstr("tensor " + name + ": its shape is ["), HasSubstr("ask for ["));
  EXPECT_THAT(with_dims({dims[0], dims[1] - 1}), misshapen);
  EXPECT_THAT(with_dims({dims[0], dims[1] + 1}), misshapen);
  EXPECT_THAT(with_dims({dims[0] - 4096, dims[1]}), misshapen);
  EXPECT_THAT(with_dims({dims[1], dims[0]}), misshapen);
  EXPECT_THAT(with_dims({dims[0], dims[1], 2}), misshapen);
  EXPECT_THAT(with_dims({dims[0] * dims[1]}), misshapen);

  GgufRewrite other_type = rewrite();
  other_type.tensor(name).type = kGgmlI32;
  other_type.tensor(name).dims[0] /= 4;
  EXPECT_THAT(message_of(other_type), HasSubstr("tensor " + name + ": its type is I32"));
  EXPECT_THAT(message_of(rewrite().remove_tensor(name)), HasSubstr("tensor " + name + " is missing"));
  EXPECT_THAT(message_of(rewrite().set_alignment(32)), HasSubstr("must be a multiple of 4096"));
}

TEST_F(PackedFile, PlainAndPackedExpertsDoNotMix) {
  const GgufRewrite plain(plain_path_);
  GgufRewrite both = rewrite();
  for (const GgufRewrite::Tensor& tensor : plain.tensors()) {
    if (tensor.name == "blk.1.ffn_gate_exps.weight") both.tensors().push_back(tensor);
  }
  EXPECT_THAT(message_of(both), HasSubstr("tensor blk.1.ffn_gate_exps.weight"));
  // Without the key, extents are tensors that nobody knows.
  EXPECT_THAT(message_of(rewrite().remove("soli.pack.version")), HasSubstr("tensor blk."));
  EXPECT_THAT(message_of(rewrite().set("deepseek2.expert_count", GgufValue::of_uint32(4))),
              HasSubstr("soli.pack.checksums"));
  const std::string dense = folder_ / "dense.gguf";
  SynthOptions options = std::move(*tiny_synth("llama"));
  options.spec.router = {};
  options.spec.expert_width = 0;
  options.spec.ffn_width = 64;
  const Status written = write_synthetic_model(options, dense, *runtime_, {});
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_THAT(message_of(GgufRewrite(dense).set("soli.pack.version", GgufValue::of_uint32(1))),
              HasSubstr("soli.pack.version: the file is packed, and the model has no experts"));
}

TEST_F(PackedFile, ACutFileIsRefused) {
  const auto size = std::filesystem::file_size(path_);
  for (const uintmax_t cut : {uintmax_t{1}, uintmax_t{4096}, size / 2}) {
    const std::string path = folder_ / "cut.gguf";
    std::filesystem::copy_file(path_, path, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(path, size - cut);
    const auto file = ModelFile::open(path);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.error().message, testing::AnyOf(HasSubstr("ends early"), HasSubstr("past the end")));
  }
}

}  // namespace
}  // namespace soli
