#include "serve/access_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace soli::serve {
namespace {

tl::unexpected<Error> refused(const std::string& path, int error) {
  return fail(ErrorKind::kIo, "--access-log {}: {}", path, std::strerror(error));
}

Result<int> open_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (file < 0) return refused(path, errno);
  return file;
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(std::string path) {
  int file = STDERR_FILENO;
  if (!path.empty()) {
    SOLI_ASSIGN_OR_RETURN(file, open_file(path));
  }
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(path), file));
}

Status AccessLog::check(const std::string& path) {
  struct stat there = {};
  if (::stat(path.c_str(), &there) == 0) {
    if (S_ISDIR(there.st_mode)) return refused(path, EISDIR);
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) return refused(path, errno);
    return {};
  }
  if (errno != ENOENT) return refused(path, errno);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return refused(path, errno);
  return slash + 1 == path.size() ? Status(refused(path, EISDIR)) : Status();
}

AccessLog::AccessLog(std::string path, int file)
    : path_(std::move(path)), file_(file), thread_([this] { work(); }) {}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  thread_.join();
  if (!path_.empty()) ::close(file_);
}

void AccessLog::write(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kMaxWaiting) {
      ++n_dropped_;
      return;
    }
    lines_.push_back(std::move(line));
  }
  changed_.notify_one();
}

Status AccessLog::reopen() {
  if (path_.empty()) return {};
  SOLI_ASSIGN_OR_RETURN(const int file, open_file(path_));
  const std::lock_guard lock(file_mutex_);
  ::close(std::exchange(file_, file));
  return {};
}

void AccessLog::work() {
  std::deque<std::string> lines;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || !lines_.empty(); });
      lines.swap(lines_);
      if (lines.empty()) return;
    }
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    put(text, static_cast<int64_t>(lines.size()));
    lines.clear();
  }
}

void AccessLog::put(const std::string& text, int64_t n_lines) {
  const std::lock_guard lock(file_mutex_);
  for (size_t n_done = 0; n_done < text.size();) {
    const ssize_t n = ::write(file_, text.data() + n_done, text.size() - n_done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      n_dropped_ += n_lines;
      return;
    }
    n_done += static_cast<size_t>(n);
  }
}

}  // namespace soli::serve
