#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "io/file_writer.h"

namespace soli {
namespace {

tl::unexpected<Error> io_error(const std::string& path, std::string_view what, int error) {
  return fail(error == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot {}: {}", path, what,
              std::strerror(error));
}

}  // namespace

Result<File> File::open(const std::string& path) {
  File file;
  file.path_ = path;
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever. Regular files ignore it.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) return io_error(path, "open", errno);
  struct stat status = {};
  if (::fstat(file.descriptor_, &status) != 0) return io_error(path, "stat", errno);
  if (S_ISDIR(status.st_mode))
    return fail(ErrorKind::kInvalidArgument, "{}: is a directory, not a file", path);
  if (!S_ISREG(status.st_mode))
    return fail(ErrorKind::kInvalidArgument, "{}: is a pipe or a device, not a regular file", path);
  file.size_ = status.st_size;
  file.changed_ = status.st_mtim;
  // Nothing is read ahead: it would pull weights into the page cache behind the metadata, find them there
  // when they are wanted, and so pull in the next ones.
  ::posix_fadvise(file.descriptor_, 0, 0, POSIX_FADV_RANDOM);
  return file;
}

File::File(File&& other) noexcept { *this = std::move(other); }

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(changed_, other.changed_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status File::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(descriptor_, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path_, fmt::format("read at offset {}", offset), errno);
    if (n == 0) {
      return fail(ErrorKind::kMalformed, "{}: ends early: {} more bytes wanted at offset {}", path_,
                  out.size(), offset);
    }
    offset += n;
    out = out.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status File::check_unchanged() const {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) return io_error(path_, "stat", errno);
  if (status.st_size == size_ && status.st_mtim.tv_sec == changed_.tv_sec &&
      status.st_mtim.tv_nsec == changed_.tv_nsec) {
    return {};
  }
  return fail(ErrorKind::kMalformed,
              "{}: the file was written to while soli reads it; start again with one that stays as it is",
              path_);
}

Result<std::string> read_file(const std::string& path, int64_t max_bytes) {
  SOLI_ASSIGN_OR_RETURN(const File file, File::open(path));
  if (file.size() > max_bytes) {
    return fail(ErrorKind::kLimit, "{}: {} is more than the {} allowed here", path, format_bytes(file.size()),
                format_bytes(max_bytes));
  }
  std::string content(static_cast<size_t>(file.size()), '\0');
  SOLI_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(content))));
  return content;
}

Status write_file(const std::string& path, std::span<const std::byte> content) {
  SOLI_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::create(path));
  SOLI_RETURN_IF_ERROR(writer.append(content));
  return writer.commit();
}

}  // namespace soli
