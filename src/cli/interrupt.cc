#include "cli/interrupt.h"

namespace soli::cli {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) { interrupt_seen = 1; }

}  // namespace

InterruptGuard::InterruptGuard(Second second) {
  interrupt_seen = 0;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART | (second == Second::kEndsProcess ? static_cast<int>(SA_RESETHAND) : 0);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_);
  sigaction(SIGTERM, &action, &previous_term_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

bool InterruptGuard::interrupted() const { return interrupt_seen != 0; }

void ignore_interrupts() { std::signal(SIGINT, SIG_IGN); }

}  // namespace soli::cli
