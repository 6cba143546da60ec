#include "io/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace soli {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr int kMaxTemporaryNames = 100;

/// A rename would put a file in the place of a device, a pipe or a link: /dev/null must outlive being written
/// to.
bool must_be_written_in_place(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

Result<FileWriter> FileWriter::create(const std::string& path) {
  FileWriter writer;
  writer.path_ = path;
  SOLI_RETURN_IF_ERROR(must_be_written_in_place(path) ? writer.open_in_place() : writer.open_temporary());
  writer.buffer_.reserve(kBufferBytes);
  return writer;
}

Status FileWriter::check(const std::string& path) {
  FileWriter writer;
  writer.path_ = path;
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return writer.io_error("create", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return {};
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return writer.io_error("create", errno);
  return {};
}

Status FileWriter::check_room(const std::string& path, int64_t bytes) {
  std::error_code unknown;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto space = std::filesystem::space(folder.empty() ? "." : folder, unknown);
  if (unknown || space.available >= static_cast<uintmax_t>(bytes)) return {};
  return fail(ErrorKind::kLimit, "{}: it takes {}, and the disk has {} left", path, format_bytes(bytes),
              format_bytes(static_cast<int64_t>(space.available)));
}

Status FileWriter::open_in_place() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) return io_error("create", errno);
  return {};
}

Status FileWriter::open_temporary() {
  // O_EXCL: a file that happens to have the name is somebody's.
  for (int number = 0; number < kMaxTemporaryNames; ++number) {
    temporary_ = path_ + "." + std::to_string(::getpid()) + "-" + std::to_string(number) + ".tmp";
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor_ >= 0) return {};
    if (errno != EEXIST) break;
  }
  return io_error("create", errno);
}

FileWriter::FileWriter(FileWriter&& other) noexcept { *this = std::move(other); }

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!in_place()) ::unlink(temporary_.c_str());
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  SOLI_CHECK(descriptor_ >= 0, "append to a file that is committed or was moved from");
  size_ += static_cast<int64_t>(bytes.size());
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return {};
  }
  SOLI_RETURN_IF_ERROR(write_all(buffer_));
  buffer_.clear();
  if (bytes.size() >= kBufferBytes) return write_all(bytes);
  buffer_.assign(bytes.begin(), bytes.end());
  return {};
}

Status FileWriter::replace(int64_t offset, std::span<const std::byte> bytes) {
  SOLI_CHECK(descriptor_ >= 0, "replace in a file that is committed or was moved from");
  SOLI_CHECK(offset >= 0 && offset + static_cast<int64_t>(bytes.size()) <= size_, "{} bytes at {} of {}",
             bytes.size(), offset, size_);
  SOLI_RETURN_IF_ERROR(write_all(buffer_));
  buffer_.clear();
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return {};
}

Status FileWriter::commit() {
  SOLI_CHECK(descriptor_ >= 0, "commit of a file that is committed or was moved from");
  SOLI_RETURN_IF_ERROR(write_all(buffer_));
  const int descriptor = std::exchange(descriptor_, -1);
  Status status;
  if (::close(descriptor) != 0) status = io_error("close", errno);
  if (in_place()) return status;
  if (status && std::rename(temporary_.c_str(), path_.c_str()) != 0) status = io_error("rename to", errno);
  if (!status) ::unlink(temporary_.c_str());
  return status;
}

Status FileWriter::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

tl::unexpected<Error> FileWriter::io_error(const char* what, int error) const {
  return fail(error == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot {}: {}", path_, what,
              std::strerror(error));
}

}  // namespace soli
