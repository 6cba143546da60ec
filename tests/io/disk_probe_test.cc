#include "io/disk_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace soli {
namespace {

TEST(DiskProbe, MeasuresEveryDepth) {
  const TemporaryFolder folder;
  const std::vector<std::byte> content(3'000'000);
  ASSERT_TRUE(write_file(folder / "file", content));
  const auto file = File::open(folder / "file");
  const DirectFile direct(*file);
  for (const ReadQueueFactory& make_queue :
       {ReadQueueFactory(make_fastest_queue), ReadQueueFactory(make_thread_queue)}) {
    const auto figures = measure_disk(direct, 100'000, 0.002, make_queue);
    ASSERT_TRUE(figures) << figures.error().message;
    ASSERT_EQ(figures->by_depth.size(), 6U);
    for (const DiskFigures::AtDepth& at : figures->by_depth) {
      EXPECT_GT(at.bytes_per_s, 0);
      EXPECT_LE(at.bytes_per_s, figures->bytes_per_s);
    }
    EXPECT_GE(figures->best_depth, 1);
  }
  EXPECT_FALSE(measure_disk(direct, 4'000'000, 0.002)) << "the file is smaller than a read";
}

}  // namespace
}  // namespace soli
