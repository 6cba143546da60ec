// Files that really have, in sparse bytes, as much as they claim: memory stays bounded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/units.h"
#include "format/gguf.h"
#include "io/file.h"
#include "support/gguf_bytes.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::HasSubstr;

// Sanitizers keep freed memory, so there the peak says nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPeakIsMeaningful = false;
#elif defined(__has_feature)
constexpr bool kPeakIsMeaningful = !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer));
#else
constexpr bool kPeakIsMeaningful = true;
#endif

constexpr int64_t kExtraBytesMax = 64 * kMiB;

int64_t status_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoll(line.substr(field.size() + 1));
  }
  return 0;
}

/// Resets the kernel's peak to what is in use now, and returns that.
int64_t reset_peak_bytes() {
  std::ofstream("/proc/self/clear_refs") << 5;
  return status_kib("VmRSS") * kKiB;
}

class GgufMemory : public testing::Test {
 protected:
  /// `head`, then zeros up to `size`, which take no room on disk.
  std::string write_sparse(const std::string& head, int64_t size) {
    const std::string path = folder_ / "m.gguf";
    EXPECT_TRUE(write_file(path, std::as_bytes(std::span(head))));
    std::filesystem::resize_file(path, static_cast<uintmax_t>(size));
    return path;
  }

  /// Opens a file while watching the peak; returns its error, or "".
  static std::string open_within_bound(const std::string& path) {
    const int64_t before = reset_peak_bytes();
    const auto file = GgufFile::open(path);
    const int64_t extra = status_kib("VmHWM") * kKiB - before;
    if (kPeakIsMeaningful) {
      EXPECT_LT(extra, kExtraBytesMax);
    }
    return file ? "" : file.error().message;
  }

  /// A file with that one entry, then zeros.
  std::string one_entry(const std::string& entry, int64_t size) {
    return write_sparse("GGUF" + raw(uint32_t{3}) + raw(uint64_t{0}) + raw(uint64_t{1}) + entry, size);
  }

  TemporaryFolder folder_;
};

TEST_F(GgufMemory, AStringOfManyGigabytes) {
  EXPECT_THAT(open_within_bound(one_entry(raw_entry("k", 8, raw(uint64_t{1} << 37)), int64_t{1} << 38)),
              HasSubstr("key 'k' is 137438953472 bytes long; at most"));
}

TEST_F(GgufMemory, ArraysOfManyGigabytes) {
  const auto error = [&](uint32_t element, uint64_t count) {
    return open_within_bound(one_entry(raw_array("k", element, count, ""), int64_t{1} << 38));
  };
  EXPECT_THAT(error(12, uint64_t{1} << 34), HasSubstr("more than the 40.0 MiB allowed"));
  EXPECT_THAT(error(0, uint64_t{1} << 37), HasSubstr("more than the 40.0 MiB allowed"));
  EXPECT_THAT(error(8, uint64_t{1} << 34), HasSubstr("more than the 40.0 MiB allowed"));
}

TEST_F(GgufMemory, StringsThatTogetherAreTooLong) {
  std::string strings;
  for (int i = 0; i < 45; ++i) strings += raw_string(std::string(1 << 20, 'x'));
  EXPECT_THAT(open_within_bound(one_entry(raw_array("k", 8, 45, strings), 64 << 20)), HasSubstr("allowed"));
}

TEST_F(GgufMemory, AsMuchAsIsAllowed) {
  constexpr uint64_t kStrings = 5'000'000;
  EXPECT_EQ(open_within_bound(one_entry(raw_array("k", 8, kStrings, ""), 50'000'000)), "");
  EXPECT_EQ(open_within_bound(one_entry(raw_array("k", 0, 40'000'000, ""), 50'000'000)), "");
}

TEST_F(GgufMemory, AsManyTensorsAsAreAllowed) {
  GgufBytes file;
  file.tensors.clear();
  for (uint64_t i = 0; i < kGgufMaxTensors; ++i) {
    file.tensors.push_back({.name = fmt::format("{:0100}", i), .dims = {1, 1, 1, 1}, .offset = i * 32});
  }
  file.data_bytes = kGgufMaxTensors * 32;
  const std::string bytes = file.bytes();
  const std::string path = write_sparse(bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(open_within_bound(path), "");
  file.tensors.push_back({.name = "one more", .offset = 0});
  EXPECT_THAT(open_within_bound(write_sparse(file.bytes(), static_cast<int64_t>(bytes.size()))),
              HasSubstr("at most 131072 are allowed"));
}

}  // namespace
}  // namespace soli
