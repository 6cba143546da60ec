#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace soli::cli {

/// One line on stderr that is rewritten as work goes on and wiped at the end; nothing at all unless stderr is
/// a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  /// Shows how much is done and a remark of the caller's, at most some ten times a second.
  void show(int64_t done, int64_t total, const std::string& remark = "");

 private:
  using Clock = std::chrono::steady_clock;

  const std::string what_;
  const bool visible_;
  bool drawn_ = false;
  Clock::time_point last_ = {};
};

}  // namespace soli::cli
