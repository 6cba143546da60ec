// Disks and files that fail while experts are read: an error for whom it concerns, and never wrong weights.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "experts/tiered_store.h"
#include "support/loaded_engine.h"
#include "support/temporary_folder.h"
#include "tiered/faulty_queue.h"

namespace soli {
namespace {

using testing::HasSubstr;

constexpr EngineOptions kOptions = {.context_length = 128, .chunk_rows = 64, .max_logit_rows = 64};

class Faulty : public testing::Test {
 protected:
  Faulty() {
    std::filesystem::copy_file(GoldenCase("qwen3moe-mix-q4_k_m").model_path(), path_);
    auto resident = LoadedEngine::create(path_, {.n_threads = 2}, kOptions);
    EXPECT_TRUE(resident) << resident.error().message;
    vocab_size_ = resident->model->spec().vocab_size;
    expected_ = run_together(*resident->engine, requests());
  }

  std::vector<Request> requests() const { return eight_requests(vocab_size_); }

  LoadedEngine load(int64_t slots_of_each = 3) {
    const auto bytes = [&](const ModelFile& file, const kernels::KernelTable& kernels) {
      const ExpertSource source = std::move(*ExpertSource::create(file, kernels));
      return ExpertSlots::charged_bytes(source, std::vector(source.forms().size(), slots_of_each));
    };
    const auto file = ModelFile::open(path_);
    const auto kernels = kernels::select_kernels("");
    // The reads of the queue: the page cache holds the file, and answers without it.
    auto loaded = LoadedEngine::create_tiered(path_, {.n_threads = 2}, kOptions,
                                              {.slot_bytes = bytes(*file, **kernels),
                                               .prefetch = PrefetchGate::Mode::kAlways,
                                               .loader = {.depth = 5, .make_queue = faulty_queue(faults_)}});
    EXPECT_TRUE(loaded) << loaded.error().message;
    return std::move(*loaded);
  }

  /// Takes the file out of the page cache, so that reads go through the queue.
  void evict() const {
    const auto file = File::open(path_);
    ::fsync(file->descriptor());
    ::posix_fadvise(file->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }

  void expect_right(Engine& engine) {
    const auto answers = run_together(engine, requests());
    for (size_t r = 0; r < expected_.size(); ++r) {
      ASSERT_FALSE(answers[r].error) << r << ": " << answers[r].error->message;
      EXPECT_TRUE(same_bits(expected_[r], answers[r])) << r;
    }
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "model.gguf";
  Faults faults_;
  int64_t vocab_size_ = 0;
  std::vector<Answer> expected_;
};

TEST_F(Faulty, ShortAndInterruptedReadsChangeNothing) {
  for (const int error : {0, EAGAIN, EINVAL, EINTR}) {
    SCOPED_TRACE(error);
    evict();
    const LoadedEngine loaded = load();
    faults_.error = error;
    faults_.fail_every = 3;
    expect_right(*loaded.engine);
  }
}

TEST_F(Faulty, ASlowDiskChangesNothing) {
  evict();
  const LoadedEngine loaded = load();
  faults_.delay_us = 200;
  expect_right(*loaded.engine);
}

TEST_F(Faulty, AnErrorOfTheDiskFailsTheRequestsThatMetIt) {
  evict();
  const LoadedEngine loaded = load();
  faults_.error = EIO;
  for (const int every : {1, 2, 7, 40}) {
    SCOPED_TRACE(every);
    evict();
    faults_.n_reads = 0;
    faults_.fail_every = every;
    const auto answers = run_together(*loaded.engine, requests());
    if (faults_.n_reads >= every) {
      for (const Answer& answer : answers) {
        ASSERT_EQ(answer.reason, FinishReason::kFailed);
        EXPECT_THAT(answer.error->message,
                    testing::AllOf(HasSubstr(path_), HasSubstr("Input/output error"), HasSubstr("expert ")));
      }
    }
    faults_.fail_every = 0;
    expect_right(*loaded.engine);
  }
}

TEST_F(Faulty, AFileThatIsCutShortIsNamed) {
  const LoadedEngine loaded = load(1);
  expect_right(*loaded.engine);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  const auto answers = run_together(*loaded.engine, requests());
  for (const Answer& answer : answers) {
    ASSERT_EQ(answer.reason, FinishReason::kFailed);
    EXPECT_THAT(answer.error->message, HasSubstr(path_));
  }
}

TEST_F(Faulty, AFileThatIsWrittenToIsNamed) {
  const LoadedEngine loaded = load(1);
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path_) / 2));
    file << "other bytes";
  }
  const auto answers = run_together(*loaded.engine, requests());
  for (const Answer& answer : answers) {
    ASSERT_EQ(answer.reason, FinishReason::kFailed);
    EXPECT_THAT(answer.error->message, HasSubstr("was written to while soli reads it"));
  }
}

TEST_F(Faulty, AFileThatIsReplacedByAnotherStaysOpen) {
  const LoadedEngine loaded = load(1);
  std::filesystem::copy_file(GoldenCase("olmoe").model_path(), folder_ / "other.gguf");
  std::filesystem::rename(folder_ / "other.gguf", path_);
  expect_right(*loaded.engine);
}

TEST_F(Faulty, TheMemoryForSlotsMayChangeWhileAModelRuns) {
  const LoadedEngine loaded = load();
  const ExpertSource& source = loaded.tiered->source();
  const Status too_little = loaded.tiered->set_slot_bytes(ExpertSlots::least_bytes(source) - 1);
  ASSERT_FALSE(too_little);
  EXPECT_THAT(too_little.error().message, HasSubstr("at least"));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (uint64_t i = 0; !stop; ++i) {
      const std::vector<int64_t> n(source.forms().size(), static_cast<int64_t>(1 + i % 9));
      EXPECT_TRUE(loaded.tiered->set_slot_bytes(ExpertSlots::charged_bytes(source, n)));
      EXPECT_GE(sum(loaded.tiered->counters()).calls(), 0);
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 3; ++i) expect_right(*loaded.engine);
  stop = true;
  other.join();
}

}  // namespace
}  // namespace soli
