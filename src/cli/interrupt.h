#pragma once

#include <csignal>

namespace soli::cli {

/// While it lives, Ctrl-C (SIGINT) and SIGTERM only set a flag. One at a time.
class InterruptGuard {
 public:
  /// What a second one does, for somebody who cannot wait: ends the process at once, or nothing more.
  enum class Second { kEndsProcess, kIsIgnored };
  explicit InterruptGuard(Second second);
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  bool interrupted() const;

 private:
  struct sigaction previous_ = {};
  struct sigaction previous_term_ = {};
};

/// Ctrl-C does nothing from here on, but for the life of an InterruptGuard.
void ignore_interrupts();

}  // namespace soli::cli
