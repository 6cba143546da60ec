#include "io/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace soli {

Result<ScratchFile> ScratchFile::create() {
  ScratchFile file;
  const char* const folder = std::getenv("TMPDIR");
  file.folder_ = folder != nullptr && *folder != '\0' ? folder : "/tmp";
  std::string path = file.folder_ + "/soli-XXXXXX";
  file.descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (file.descriptor_ < 0)
    return fail(ErrorKind::kIo, "{}: cannot make a file there: {}", file.folder_, std::strerror(errno));
  ::unlink(path.c_str());
  return file;
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), folder_(std::move(other.folder_)) {}

ScratchFile& ScratchFile::operator=(ScratchFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(folder_, other.folder_);
  return *this;
}

ScratchFile::~ScratchFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status ScratchFile::write(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return fail(ErrorKind::kIo, "{}: cannot write a temporary file: {}", folder_, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return {};
}

Status ScratchFile::read(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return fail(ErrorKind::kIo, "{}: cannot read a temporary file: {}", folder_, std::strerror(errno));
    if (n == 0) return fail(ErrorKind::kIo, "{}: a temporary file ends at {}", folder_, offset);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return {};
}

}  // namespace soli
