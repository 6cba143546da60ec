// Packed models of which only some experts are in memory: extents go straight into their slots.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "experts/tiered_store.h"
#include "model/pack.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"
#include "tiered/faulty_queue.h"

namespace soli {
namespace {

using testing::HasSubstr;

constexpr EngineOptions kPackedOptions = {.context_length = 128, .chunk_rows = 64, .max_logit_rows = 64};

class PackedTiers : public testing::TestWithParam<const char*> {
 protected:
  PackedTiers() {
    const std::string plain = GoldenCase(GetParam()).model_path();
    auto resident = LoadedEngine::create(plain, {.n_threads = 2}, kPackedOptions);
    EXPECT_TRUE(resident) << resident.error().message;
    requests_ = eight_requests(resident->model->spec().vocab_size);
    expected_ = run_together(*resident->engine, requests_);
    const auto one =
        pack_model(resident->model->file(), {.out = folder_ / "one.gguf"}, *resident->runtime, {});
    EXPECT_TRUE(one) << one.error().message;
    std::filesystem::create_directories(folder_ / "a");
    std::filesystem::create_directories(folder_ / "b");
    const auto striped = pack_model(resident->model->file(),
                                    {.out = folder_ / "two.gguf", .folders = {folder_ / "a", folder_ / "b"}},
                                    *resident->runtime, {});
    EXPECT_TRUE(striped) << striped.error().message;
    paths_ = {one->paths.front(), striped->paths.front()};
  }

  LoadedEngine load(const std::string& path, int64_t slots_of_each, PrefetchGate::Mode prefetch) {
    const auto file = ModelFile::open(path);
    EXPECT_TRUE(file) << file.error().message;
    const ExpertSource source = std::move(*ExpertSource::create(*file, **kernels::select_kernels("")));
    const std::vector<int64_t> slots(source.forms().size(), slots_of_each);
    auto loaded = LoadedEngine::create_tiered(path, {.n_threads = 2}, kPackedOptions,
                                              {.slot_bytes = ExpertSlots::charged_bytes(source, slots),
                                               .prefetch = prefetch,
                                               .loader = {.depth = 4, .make_queue = faulty_queue(faults_)}});
    EXPECT_TRUE(loaded) << loaded.error().message;
    return std::move(*loaded);
  }

  const TemporaryFolder folder_;
  Faults faults_;
  std::vector<std::string> paths_;
  std::vector<Request> requests_;
  std::vector<Answer> expected_;
};

TEST_P(PackedTiers, GiveTheSameBits) {
  for (const std::string& path : paths_) {
    for (const int64_t n_slots : {1, 5}) {
      SCOPED_TRACE(path);
      const LoadedEngine loaded = load(path, n_slots, PrefetchGate::Mode::kAlways);
      const auto answers = run_together(*loaded.engine, requests_);
      for (size_t r = 0; r < expected_.size(); ++r) EXPECT_TRUE(same_bits(expected_[r], answers[r])) << r;
    }
  }
}

TEST_P(PackedTiers, NameAnExpertThatIsDamaged) {
  const auto file = ModelFile::open(paths_.front());
  int64_t layer = 0;
  while (!file->spec().is_moe_layer(layer)) ++layer;
  const ExpertExtent extent = *file->extent(layer, 1);
  {
    std::fstream bytes(paths_.front(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(extent.offset + 5);
    const auto byte = static_cast<char>(bytes.get());
    bytes.seekp(extent.offset + 5);
    bytes.put(static_cast<char>(byte ^ 4));
  }
  const LoadedEngine loaded = load(paths_.front(), 2, PrefetchGate::Mode::kOff);
  const auto answers = run_together(*loaded.engine, requests_);
  for (const Answer& answer : answers) {
    ASSERT_EQ(answer.reason, FinishReason::kFailed);
    EXPECT_THAT(answer.error->message,
                testing::AllOf(HasSubstr("expert 1"), HasSubstr("damaged"), HasSubstr(paths_.front())));
  }
}

TEST_P(PackedTiers, SurviveShortReadsAndErrorsOfTheDisk) {
  const LoadedEngine loaded = load(paths_.back(), 2, PrefetchGate::Mode::kAlways);
  for (const int error : {0, EAGAIN}) {
    faults_.error = error;
    faults_.fail_every = 3;
    const auto answers = run_together(*loaded.engine, requests_);
    for (size_t r = 0; r < expected_.size(); ++r) EXPECT_TRUE(same_bits(expected_[r], answers[r])) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, PackedTiers, testing::Values("qwen3moe-mix-q4_k_m", "gpt-oss-small-gptoss"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace soli
