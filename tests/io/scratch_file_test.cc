#include "io/scratch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::HasSubstr;

/// $TMPDIR as it was, when the test is over.
class ScratchFiles : public testing::Test {
 protected:
  ScratchFiles() : before_(std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR")) {}
  ~ScratchFiles() override {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }
  const std::string before_;
};

TEST_F(ScratchFiles, GiveBackWhatWasWrittenAnywhereAndLeaveNothing) {
  const TemporaryFolder folder;
  ::setenv("TMPDIR", (folder / "").c_str(), 1);
  auto file = ScratchFile::create();
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(folder.empty()) << "it has no name";
  const std::vector<std::byte> written(5000, std::byte{7});
  ASSERT_TRUE(file->write(int64_t{3} << 30, written));
  ASSERT_TRUE(file->write(0, {}));
  std::vector<std::byte> read(5000);
  ScratchFile moved = std::move(*file);
  ASSERT_TRUE(moved.read(int64_t{3} << 30, read));
  EXPECT_EQ(read, written);
  const Status beyond = moved.read((int64_t{3} << 30) + 1, read);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, ErrorKind::kIo);
}

TEST_F(ScratchFiles, NeedAFolderThatIsThere) {
  ::setenv("TMPDIR", "/no/such/folder", 1);
  const auto file = ScratchFile::create();
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace soli
