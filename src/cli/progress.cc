#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/output.h"

namespace soli::cli {
namespace {

constexpr int kBarColumns = 30;
constexpr std::chrono::milliseconds kMinimumGap{100};
constexpr const char* kWipeLine = "\r\033[K";

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), visible_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (drawn_) print_note("{}", kWipeLine);
}

void ProgressLine::show(int64_t done, int64_t total, const std::string& remark) {
  if (!visible_ || total <= 0) return;
  const Clock::time_point now = Clock::now();
  if (drawn_ && now - last_ < kMinimumGap) return;
  last_ = now;
  drawn_ = true;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int filled = static_cast<int>(share * kBarColumns);
  print_note("{}{} [{:=<{}}{:{}}] {:3.0f} % {}", kWipeLine, what_, "", filled, "", kBarColumns - filled,
             100 * share, remark);
  std::fflush(stderr);
}

}  // namespace soli::cli
