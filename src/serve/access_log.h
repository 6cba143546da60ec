#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"

namespace soli::serve {

/// Lines to a file or to standard error, written by a thread of its own: a disk or a pipe that stands still
/// never holds up an answer. Thread-safe.
class AccessLog {
 public:
  static constexpr size_t kMaxWaiting = 4096;  // lines; more are dropped, and counted

  /// `path` "": standard error. A file is made where there is none, and appended to. Fails with kIo.
  static Result<std::unique_ptr<AccessLog>> open(std::string path);
  /// Whether open() would succeed, as far as that can be known without making the file.
  static Status check(const std::string& path);
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  /// Writes what waits.
  ~AccessLog();

  /// `line` without its end.
  void write(std::string line);
  /// Opens the file anew, for a program that has moved it away. Where that fails, the old one stays in use.
  Status reopen();
  /// Lines that were dropped: too many waited, or the file took none.
  int64_t n_dropped() const { return n_dropped_; }

 private:
  AccessLog(std::string path, int file);
  void work();
  void put(const std::string& text, int64_t n_lines);

  const std::string path_;
  std::mutex mutex_;
  std::mutex file_mutex_;
  int file_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  bool stopped_ = false;
  std::atomic<int64_t> n_dropped_ = 0;
  std::thread thread_;
};

}  // namespace soli::serve
