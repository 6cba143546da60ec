#include "cli/text_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/units.h"

namespace soli::cli {
namespace {

/// Reads to the end rather than by size, since pipes have none; some more than `max_bytes` at most.
Result<std::string> read_up_to(int descriptor, const std::string& name, int64_t max_bytes) {
  std::string text;
  std::array<char, 65536> room;
  while (static_cast<int64_t>(text.size()) <= max_bytes) {
    const ssize_t n = ::read(descriptor, room.data(), room.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorKind::kIo, "{}: cannot read: {}", name, std::strerror(errno));
    if (n == 0) break;
    text.append(room.data(), static_cast<size_t>(n));
  }
  return text;
}

Result<std::string> read_to_end(int descriptor, const std::string& name, int64_t max_bytes) {
  SOLI_ASSIGN_OR_RETURN(std::string text, read_up_to(descriptor, name, max_bytes));
  if (static_cast<int64_t>(text.size()) <= max_bytes) return text;
  return fail(ErrorKind::kLimit, "{}: is more than the {} allowed here", name, format_bytes(max_bytes));
}

/// Opens the file for `read(descriptor)`.
template <typename Read>
Result<std::string> read_path(const std::string& path, Read read) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return fail(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot open: {}", path,
                std::strerror(errno));
  }
  Result<std::string> text = read(descriptor);
  ::close(descriptor);
  return text;
}

}  // namespace

Result<std::string> read_standard_input(int64_t max_bytes) {
  return read_to_end(STDIN_FILENO, "standard input", max_bytes);
}

Result<std::string> read_text(const std::string& path, int64_t max_bytes) {
  return read_path(path, [&](int descriptor) { return read_to_end(descriptor, path, max_bytes); });
}

Result<std::string> read_beginning(const std::string& path, int64_t max_bytes) {
  SOLI_ASSIGN_OR_RETURN(std::string text, read_path(path, [&](int descriptor) {
                          return read_up_to(descriptor, path, max_bytes);
                        }));
  if (static_cast<int64_t>(text.size()) > max_bytes) text.resize(static_cast<size_t>(max_bytes));
  return text;
}

bool standard_input_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

}  // namespace soli::cli
