// What a process may take, by files as Linux writes them.

#include "io/available_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

class AvailableMemoryOf : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t bytes() const {
    const auto available = available_memory(folder_ / "");
    EXPECT_TRUE(available) << available.error().message;
    return available ? available->bytes : -1;
  }
  std::string limited_by() const { return available_memory(folder_ / "")->limited_by; }

  TemporaryFolder folder_;
};

TEST_F(AvailableMemoryOf, TheMachineAlone) {
  write("proc/meminfo",
        "MemTotal:       24000000 kB\nMemFree:         1000 kB\nMemAvailable:   16777216 kB\n");
  EXPECT_EQ(bytes(), 16 * kGiB);
  EXPECT_EQ(limited_by(), "the machine");
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(bytes(), 16 * kGiB);
}

TEST_F(AvailableMemoryOf, AGroupOfVersion2AndThoseAboveIt) {
  write("proc/meminfo", "MemAvailable:   16777216 kB\n");
  write("proc/self/cgroup", "0::/user/app\n");
  write("sys/fs/cgroup/user/app/memory.max", "max\n");
  write("sys/fs/cgroup/user/app/memory.current", "1000\n");
  EXPECT_EQ(bytes(), 16 * kGiB);
  write("sys/fs/cgroup/user/memory.max", std::to_string(4 * kGiB) + "\n");
  write("sys/fs/cgroup/user/memory.current", std::to_string(3 * kGiB) + "\n");
  write("sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file " + std::to_string(kGiB) + "\n");
  EXPECT_EQ(bytes(), 2 * kGiB) << "unused cache counts as free";
  EXPECT_THAT(limited_by(), testing::EndsWith("/sys/fs/cgroup/user/"));
}

TEST_F(AvailableMemoryOf, AGroupOfVersion1) {
  write("proc/meminfo", "MemAvailable:   16777216 kB\n");
  write("proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/soli\n0::/\n");
  write("sys/fs/cgroup/memory/soli/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/soli/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(bytes(), 16 * kGiB);
  write("sys/fs/cgroup/memory/soli/memory.limit_in_bytes", std::to_string(kGiB) + "\n");
  EXPECT_EQ(bytes(), kGiB - 4096);
  // In a container the path is another machine's, and the group lies at the top.
  write("proc/self/cgroup", "5:memory:/docker/0123\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kGiB) + "\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(3 * kGiB) + "\n");
  EXPECT_EQ(bytes(), 0) << "more is used than allowed";
}

TEST_F(AvailableMemoryOf, WhatDoesNotTell) {
  EXPECT_FALSE(available_memory(folder_ / ""));
  write("proc/meminfo", "MemAvailable: many\n");
  EXPECT_FALSE(available_memory(folder_ / ""));
  write("proc/meminfo", "MemAvailable:   16777216 kB\n");
  write("proc/self/cgroup", "no colons\n::\n5:memory\n\n7:memory:\n");
  EXPECT_EQ(bytes(), 16 * kGiB);
}

TEST(AvailableMemory, OfThisMachineIsSomething) {
  const auto available = available_memory();
  ASSERT_TRUE(available) << available.error().message;
  EXPECT_GT(available->bytes, 0);
}

}  // namespace
}  // namespace soli
