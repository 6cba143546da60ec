// Ranges of files, read past the page cache and from it, by io_uring and by threads.

#include "io/direct_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using MakeQueue = std::unique_ptr<ReadQueue> (*)(int depth);

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Room = std::unique_ptr<std::byte, Free>;

Room make_room(int64_t bytes) {
  return Room(static_cast<std::byte*>(std::aligned_alloc(
      static_cast<size_t>(DirectFile::kAlignment), static_cast<size_t>(DirectReader::room_bytes(bytes)))));
}

/// A file of random bytes, of no whole number of pages.
class DirectReaders : public testing::TestWithParam<MakeQueue> {
 protected:
  static constexpr int64_t kBytes = 3'000'001;

  DirectReaders() {
    Rng rng(1);
    for (std::byte& byte : content_) byte = static_cast<std::byte>(rng.next_below(256));
    EXPECT_TRUE(write_file(path_, content_));
    file_ = std::move(*File::open(path_));
    evict();
  }
  /// Takes the file out of the page cache, where the file system has it anywhere else.
  void evict() const {
    ::fsync(file_->descriptor());
    ::posix_fadvise(file_->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
  bool equals(std::span<const std::byte> data, int64_t offset) const {
    return std::memcmp(data.data(), content_.data() + offset, data.size()) == 0;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "random";
  std::vector<std::byte> content_ = std::vector<std::byte>(static_cast<size_t>(kBytes));
  std::optional<File> file_;
};
INSTANTIATE_TEST_SUITE_P(Transports, DirectReaders, testing::Values(&make_fastest_queue, &make_thread_queue),
                         [](const testing::TestParamInfo<MakeQueue>& info) {
                           return info.param == &make_fastest_queue ? "Fastest" : "Threads";
                         });

TEST_P(DirectReaders, ReadAnyRangeInAnyOrder) {
  const DirectFile direct(*file_);
  struct Range {
    int64_t offset;
    int64_t bytes;
  };
  std::vector<Range> ranges = {{0, 1},
                               {0, 4096},
                               {4095, 2},
                               {4096, 4096},
                               {1, 8191},
                               {12'288, 5},
                               {kBytes - 1, 1},
                               {kBytes - 5000, 5000},
                               {700'001, 1'234'567},
                               {0, kBytes}};
  Rng rng(2);
  while (ranges.size() < 200) {
    const auto offset = static_cast<int64_t>(rng.next_below(kBytes));
    ranges.push_back({offset, 1 + static_cast<int64_t>(rng.next_below(
                                      static_cast<uint64_t>(std::min<int64_t>(kBytes - offset, 100'000))))});
  }
  for (const int depth : {1, 3, 16}) {
    evict();
    DirectReader reader(depth, GetParam());
    EXPECT_EQ(reader.depth(), depth);
    std::map<uint64_t, Room> rooms;
    size_t next = 0;
    size_t n_done = 0;
    while (n_done < ranges.size()) {
      while (next < ranges.size() && reader.in_flight() < depth) {
        Room& room = rooms[next] = make_room(ranges[next].bytes);
        reader.submit({&direct, ranges[next].offset, ranges[next].bytes, room.get(), next});
        ++next;
      }
      const DirectReader::Completion completion = reader.wait();
      ASSERT_TRUE(completion.data) << completion.data.error().message;
      ASSERT_EQ(rooms.count(completion.tag), 1U) << "each ends once";
      const Range& range = ranges[completion.tag];
      EXPECT_EQ(static_cast<int64_t>(completion.data->size()), range.bytes);
      EXPECT_TRUE(equals(*completion.data, range.offset)) << range.offset << " + " << range.bytes;
      rooms.erase(completion.tag);
      ++n_done;
    }
    EXPECT_EQ(reader.in_flight(), 0);
  }
}

TEST_P(DirectReaders, LeaveThePageCacheAlone) {
  const DirectFile direct(*file_);
  if (direct.descriptor() < 0 || direct.is_cached(0, kBytes)) GTEST_SKIP() << "not on this file system";
  DirectReader reader(1, GetParam());
  const Room room = make_room(kBytes);
  reader.submit({&direct, 0, kBytes, room.get(), 0});
  EXPECT_FALSE(reader.holds_cached());
  ASSERT_TRUE(reader.wait().data);
  EXPECT_FALSE(direct.is_cached(0, 100'000));
}

TEST_P(DirectReaders, FindNothingThatWasOnlyReadAhead) {
  const DirectFile direct(*file_);
  if (direct.descriptor() < 0 || direct.is_cached(0, kBytes)) GTEST_SKIP() << "not on this file system";
  // As the metadata of a model are read: in order, through the page cache.
  std::vector<std::byte> piece(10'000);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(file_->read(i * 10'000, piece));
  EXPECT_TRUE(direct.is_cached(0, 300'000));
  EXPECT_FALSE(direct.is_cached(320'000, 4096));
  DirectReader reader(1, GetParam());
  const Room room = make_room(400'000);
  reader.submit({&direct, 0, 300'000, room.get(), 0});
  EXPECT_TRUE(reader.holds_cached());
  ASSERT_TRUE(reader.wait().data);
  EXPECT_FALSE(direct.is_cached(320'000, 4096)) << "reading what is there brings in nothing more";
}

TEST_P(DirectReaders, TakeWhatIsInThePageCacheFromThere) {
  const DirectFile direct(*file_);
  std::vector<std::byte> first(500'000);
  ASSERT_TRUE(file_->read(0, first));  // now it is there
  ASSERT_TRUE(direct.is_cached(0, 500'000));
  DirectReader reader(2, GetParam());
  const Room room = make_room(500'000);
  reader.submit({&direct, 17, 400'000, room.get(), 0});
  EXPECT_TRUE(reader.holds_cached());
  const DirectReader::Completion completion = reader.wait();
  ASSERT_TRUE(completion.data);
  EXPECT_TRUE(equals(*completion.data, 17));
  EXPECT_FALSE(reader.holds_cached());
}

TEST_P(DirectReaders, AFileThatEndsEarlyIsNamedWithTheOffset) {
  const DirectFile direct(*file_);
  ASSERT_EQ(::truncate(path_.c_str(), 2'000'000), 0);
  DirectReader reader(4, GetParam());
  const Room inside = make_room(100'000);
  const Room across = make_room(100'000);
  const Room beyond = make_room(100'000);
  reader.submit({&direct, 1'900'000, 100'000, inside.get(), 0});
  reader.submit({&direct, 1'950'000, 100'000, across.get(), 1});
  reader.submit({&direct, 2'500'000, 100'000, beyond.get(), 2});
  const std::map<uint64_t, std::string> ends = {{1, "offset 2000000"}, {2, "offset 2500000"}};
  for (int i = 0; i < 3; ++i) {
    const DirectReader::Completion completion = reader.wait();
    if (completion.tag == 0) {
      ASSERT_TRUE(completion.data);
      EXPECT_TRUE(equals(*completion.data, 1'900'000));
      continue;
    }
    ASSERT_FALSE(completion.data);
    EXPECT_EQ(completion.data.error().kind, ErrorKind::kMalformed);
    EXPECT_THAT(completion.data.error().message,
                AllOf(HasSubstr(path_), HasSubstr("ends early"), HasSubstr(ends.at(completion.tag))));
  }
}

TEST_P(DirectReaders, AFileThatIsCutWhileItIsReadGivesItsBytesOrAnError) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(write_file(path_, content_));
    const File file = std::move(*File::open(path_));
    ::fsync(file.descriptor());
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    const DirectFile direct(file);
    DirectReader reader(3, GetParam());
    std::vector<Room> rooms;
    for (uint64_t i = 0; i < 3; ++i) {
      rooms.push_back(make_room(1'000'000));
      reader.submit({&direct, static_cast<int64_t>(i) * 1'000'000, 1'000'000, rooms.back().get(), i});
      if (i == 1) {
        ASSERT_EQ(::truncate(path_.c_str(), round * 150'000), 0);
      }
    }
    while (reader.in_flight() > 0) {
      const DirectReader::Completion completion = reader.wait();
      if (!completion.data) {
        EXPECT_THAT(completion.data.error().message, AllOf(HasSubstr(path_), HasSubstr("offset")));
      } else {
        EXPECT_EQ(completion.data->size(), 1'000'000U);
      }
    }
  }
}

TEST_P(DirectReaders, WaitForWhatIsInFlightBeforeTheyGo) {
  const DirectFile direct(*file_);
  const Room room = make_room(kBytes);
  for (int round = 0; round < 10; ++round) {
    evict();
    {
      DirectReader reader(2, GetParam());
      reader.submit({&direct, 0, kBytes, room.get(), 0});
    }
    std::memset(room.get(), round, static_cast<size_t>(kBytes));
    EXPECT_EQ(room.get()[kBytes - 1], static_cast<std::byte>(round)) << "nobody writes any more";
  }
}

TEST_P(DirectReaders, GoThroughThePageCacheWhereDirectReadsAreRefused) {
  const DirectFile direct(*file_);
  direct.refuse(EINVAL);
  EXPECT_EQ(direct.descriptor(), -1);
  DirectReader reader(1, GetParam());
  const Room room = make_room(kBytes);
  reader.submit({&direct, 1, kBytes - 1, room.get(), 0});
  const DirectReader::Completion completion = reader.wait();
  ASSERT_TRUE(completion.data);
  EXPECT_TRUE(equals(*completion.data, 1));
}

TEST(DirectFiles, AnotherFileUnderThePathIsNotTakenForTheFirst) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  const std::string first = "the first";
  const std::string second = "a second";
  ASSERT_TRUE(write_file(path, std::as_bytes(std::span(first))));
  const File file = std::move(*File::open(path));
  ASSERT_TRUE(write_file(path, std::as_bytes(std::span(second))));
  const DirectFile direct(file);
  EXPECT_EQ(direct.descriptor(), -1);
  DirectReader reader(1);
  const Room room = make_room(9);
  reader.submit({&direct, 0, 9, room.get(), 0});
  const DirectReader::Completion completion = reader.wait();
  ASSERT_TRUE(completion.data);
  EXPECT_EQ(std::memcmp(completion.data->data(), first.data(), 9), 0);
}

TEST(DirectFiles, ReadFromMemoryFileSystemsToo) {
  const std::string path = "/dev/shm/soli_direct_reader_test." + std::to_string(::getpid());
  const std::string text(10'000, 'x');
  if (!write_file(path, std::as_bytes(std::span(text)))) GTEST_SKIP() << "no /dev/shm";
  const File file = std::move(*File::open(path));
  std::filesystem::remove(path);
  const DirectFile direct(file);  // gone from its folder: not to be had
  EXPECT_EQ(direct.descriptor(), -1);
  DirectReader reader(1);
  const Room room = make_room(9'000);
  reader.submit({&direct, 1'000, 9'000, room.get(), 0});
  EXPECT_TRUE(reader.wait().data);
}

}  // namespace
}  // namespace soli
