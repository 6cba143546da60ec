#include "io/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/file_writer.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(File, ReadsAtOffsetsFromManyThreads) {
  const TemporaryFolder folder;
  const std::string path = folder / "numbers";
  std::vector<uint32_t> numbers(100'000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<uint32_t>(i * 2654435761U);
  ASSERT_TRUE(write_file(path, std::as_bytes(std::span(numbers))));

  const auto file = File::open(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->size(), 400'000);
  EXPECT_EQ(file->path(), path);
  std::vector<int> n_wrong(4);
  std::vector<std::thread> readers;
  for (size_t t = 0; t < n_wrong.size(); ++t) {
    readers.emplace_back([&, t] {
      for (size_t i = t; i + 7 <= numbers.size(); i += 997) {
        std::vector<uint32_t> seven(7);
        const Status status =
            file->read(static_cast<int64_t>(4 * i), std::as_writable_bytes(std::span(seven)));
        n_wrong[t] +=
            !status || !std::equal(seven.begin(), seven.end(), numbers.begin() + static_cast<long>(i));
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(n_wrong, std::vector<int>(4));
}

TEST(File, SaysThatItEndsEarly) {
  const TemporaryFolder folder;
  const std::string path = folder / "five";
  ASSERT_TRUE(write_file(path, bytes_of("12345")));
  const auto file = File::open(path);
  ASSERT_TRUE(file.has_value());
  std::vector<std::byte> out(4);
  EXPECT_TRUE(file->read(1, out));
  EXPECT_TRUE(file->read(5, std::span<std::byte>())) << "nothing can be read at the end";
  const Status status = file->read(2, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kMalformed);
  EXPECT_NE(status.error().message.find(path + ": ends early"), std::string::npos) << status.error().message;
}

TEST(File, RefusesWhatIsNoRegularFileAndNamesIt) {
  const TemporaryFolder folder;
  const auto missing = File::open(folder / "missing");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(missing.error().message.find(folder / "missing"), std::string::npos);

  const auto directory = File::open(folder / ".");
  ASSERT_FALSE(directory.has_value());
  EXPECT_NE(directory.error().message.find("is a directory"), std::string::npos);

  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder / "pipe", std::string("/dev/zero")}) {
    const auto opened = File::open(path);
    ASSERT_FALSE(opened.has_value()) << path;
    EXPECT_EQ(opened.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(opened.error().message.find("not a regular file"), std::string::npos) << opened.error().message;
  }
}

TEST(File, TellsWhetherItWasWrittenTo) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", bytes_of("before")));
  // As a file that was written some time ago: the clock of a file system has ticks of its own.
  std::filesystem::last_write_time(folder / "a",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::seconds(10));
  const auto file = File::open(folder / "a");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->check_unchanged());
  std::fstream(folder / "a", std::ios::in | std::ios::out) << "after!";
  const Status changed = file->check_unchanged();
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::kMalformed);
  EXPECT_NE(changed.error().message.find("was written to while soli reads it"), std::string::npos);
}

TEST(File, MovesItsDescriptor) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", bytes_of("a")));
  ASSERT_TRUE(write_file(folder / "b", bytes_of("bb")));
  auto a = File::open(folder / "a");
  auto b = File::open(folder / "b");
  ASSERT_TRUE(a.has_value() && b.has_value());
  *a = std::move(*b);
  EXPECT_EQ(a->size(), 2);
  std::byte last{};
  ASSERT_TRUE(a->read(1, std::span(&last, 1)));
  EXPECT_EQ(last, std::byte{'b'});
}

TEST(ReadFile, HasALimit) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "text", bytes_of("hello")));
  EXPECT_EQ(read_file(folder / "text", 5).value(), "hello");
  const auto refused = read_file(folder / "text", 4);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);
  EXPECT_NE(refused.error().message.find("5 B is more than the 4 B"), std::string::npos)
      << refused.error().message;
  ASSERT_TRUE(write_file(folder / "text", {}));
  EXPECT_EQ(read_file(folder / "text", 0).value(), "");
}

TEST(WriteFile, ReplacesAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "text", bytes_of("a longer first text")));
  ASSERT_TRUE(write_file(folder / "text", bytes_of("second")));
  EXPECT_EQ(read_file(folder / "text", 100).value(), "second");
  std::filesystem::remove(folder / "text");
  EXPECT_TRUE(folder.empty());
  const Status refused = write_file(folder / "missing/text", bytes_of("x"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kNotFound);
}

TEST(FileWriter, LeavesNothingUnlessCommitted) {
  const TemporaryFolder folder;
  const std::string piece(100'000, 'x');
  {
    auto writer = FileWriter::create(folder / "big");
    ASSERT_TRUE(writer.has_value());
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(writer->append(bytes_of(piece)));
    EXPECT_EQ(writer->size(), 3'000'000);
    EXPECT_FALSE(std::filesystem::exists(folder / "big")) << "it has no name before commit";
  }
  EXPECT_TRUE(folder.empty());
}

/// Lets this process write files of at most so many bytes, as a full disk would, for as long as it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limited = {bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int);
};

TEST(FileWriter, SaysWhenItCannotWriteAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string piece(1'000'000, 'x');
  {
    const FileSizeLimit limit(1'500'000);
    auto writer = FileWriter::create(folder / "big");
    ASSERT_TRUE(writer.has_value());
    Status status = writer->append(bytes_of(piece));
    ASSERT_TRUE(status);
    status = writer->append(bytes_of(piece));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::kIo);
    EXPECT_NE(status.error().message.find(folder / "big"), std::string::npos) << status.error().message;
  }
  EXPECT_TRUE(folder.empty());
}

TEST(FileWriter, DoesNotReplaceAFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "taken");
  const Status status = write_file(folder / "taken", bytes_of("x"));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find(folder / "taken"), std::string::npos) << status.error().message;
  std::filesystem::remove(folder / "taken");
  EXPECT_TRUE(folder.empty());
}

TEST(FileWriter, WritesIntoAPipeAndDoesNotReplaceIt) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string read(5, '\0');
  std::thread reader([&] {
    std::ifstream pipe(folder / "pipe");
    pipe.read(read.data(), static_cast<std::streamsize>(read.size()));
  });
  EXPECT_TRUE(write_file(folder / "pipe", bytes_of("hello")));
  reader.join();
  EXPECT_EQ(read, "hello");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(FileWriter, WritesThroughALinkAndDoesNotReplaceIt) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "target", bytes_of("something longer")));
  for (const std::string name : {"target", "new"}) {
    std::filesystem::create_symlink(folder / name, folder / "link");
    ASSERT_TRUE(write_file(folder / "link", bytes_of("text")));
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
    EXPECT_EQ(std::filesystem::file_size(folder / name), 4) << name;
    std::filesystem::remove(folder / "link");
  }
}

TEST(FileWriter, LeavesOtherFilesAlone) {
  const TemporaryFolder folder;
  auto first = FileWriter::create(folder / "text");
  auto second = FileWriter::create(folder / "text");  // as two programs would
  ASSERT_TRUE(first.has_value() && second.has_value());
  ASSERT_TRUE(first->append(bytes_of("first")) && second->append(bytes_of("the second")));
  ASSERT_TRUE(first->commit());
  EXPECT_EQ(std::filesystem::file_size(folder / "text"), 5);
  ASSERT_TRUE(second->commit());
  EXPECT_EQ(std::filesystem::file_size(folder / "text"), 10);
  std::filesystem::remove(folder / "text");
  EXPECT_TRUE(folder.empty());
}

TEST(FileWriter, CheckSaysWhatCreateWouldAndMakesNothing) {
  const TemporaryFolder folder;
  EXPECT_TRUE(FileWriter::check(folder / "text"));
  EXPECT_TRUE(FileWriter::check("text"));
  EXPECT_TRUE(FileWriter::check("/dev/null"));
  EXPECT_TRUE(folder.empty());
  const Status missing = FileWriter::check(folder / "missing/text");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  const Status is_folder = FileWriter::check(folder / "");
  ASSERT_FALSE(is_folder);
  EXPECT_NE(is_folder.error().message.find(folder / ""), std::string::npos) << is_folder.error().message;
}

}  // namespace
}  // namespace soli
