#include "io/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace soli {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

}  // namespace

Result<FileWriter> FileWriter::create(const std::string& path) {
  FileWriter writer;
  writer.path_ = path;
  writer.descriptor_ = ::open(writer.temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (writer.descriptor_ < 0) return writer.io_error("create", errno);
  writer.buffer_.reserve(kBufferBytes);
  return writer;
}

FileWriter::FileWriter(FileWriter&& other) noexcept { *this = std::move(other); }

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary().c_str());
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

Status FileWriter::commit() {
  SOLI_CHECK(descriptor_ >= 0, "commit of a file that is committed or was moved from");
  SOLI_RETURN_IF_ERROR(write_all(buffer_));
  const int descriptor = std::exchange(descriptor_, -1);
  Status status;
  if (::close(descriptor) != 0) status = io_error("close", errno);
  if (status && std::rename(temporary().c_str(), path_.c_str()) != 0) status = io_error("rename to", errno);
  if (!status) ::unlink(temporary().c_str());
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
