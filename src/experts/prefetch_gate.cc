#include "experts/prefetch_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace soli {
namespace {

// Of a new figure, in means over some hundred turns: a few tokens.
constexpr double kWeight = 1.0 / 128;

void add(double& mean, double value) { mean = mean == 0 ? value : mean + kWeight * (value - mean); }

}  // namespace

/// What a turn is expected to win by reading `n` experts ahead.
double PrefetchGate::gain_s(double n) const {
  const double all_s = n * read_s_;
  const double hidden_s = std::min(all_s, idle_s_);
  return precision_ * hidden_s - (1 - precision_) * (all_s - hidden_s + n * chance_ * read_s_);
}

int64_t PrefetchGate::allowance() const {
  constexpr double kMost = 1024;
  if (mode_ == Mode::kOff) return 0;
  if (mode_ == Mode::kAlways) return std::numeric_limits<int64_t>::max();
  if (read_s_ <= 0 || idle_s_ <= 0) return 0;  // nothing has been read yet, or nothing is idle
  const double fitting = std::min(std::floor(idle_s_ / read_s_), kMost);
  const double best = gain_s(fitting + 1) > gain_s(fitting) ? fitting + 1 : fitting;
  return gain_s(best) > 0 ? static_cast<int64_t>(best) : 0;
}

bool PrefetchGate::wants_prediction(int64_t step) const {
  constexpr int64_t kEvery = 8;
  if (mode_ == Mode::kOff) return false;
  return allowance() > 0 || step % kEvery == 0;
}

void PrefetchGate::on_outcome(int64_t n, int64_t n_called) {
  if (n > 0) precision_ += kWeight * (static_cast<double>(n_called) / static_cast<double>(n) - precision_);
}

void PrefetchGate::on_idle(double seconds) { add(idle_s_, seconds); }

void PrefetchGate::on_read(double seconds) { add(read_s_, seconds); }

}  // namespace soli
