#include "engine/prefill_pace.h"

#include <algorithm>
#include <cmath>

namespace soli {
namespace {

constexpr double kNewShare = 0.3;  // of a new time in the mean of times
constexpr double kNewRowShare = 0.5;

}  // namespace

/// Numbers of rows within 9 % of each other count as equal.
int64_t PrefillPace::bucket_of(int64_t n_decode_rows) {
  return static_cast<int64_t>(std::floor(8 * std::log2(static_cast<double>(n_decode_rows))));
}

const PrefillPace::Alone* PrefillPace::nearest(int64_t bucket) const {
  if (alone_.empty()) return nullptr;
  const auto next = alone_.lower_bound(bucket);
  if (next == alone_.end()) return &std::prev(next)->second;
  if (next == alone_.begin() || next->first == bucket) return &next->second;
  const auto before = std::prev(next);
  return bucket - before->first < next->first - bucket ? &before->second : &next->second;
}

int64_t PrefillPace::rows_beside(int64_t n_decode_rows, int64_t most) const {
  if (!is_on() || n_decode_rows == 0) return most;
  const int64_t bucket = bucket_of(n_decode_rows);
  const Alone* const alone = nearest(bucket);
  if (alone == nullptr) return 0;
  const auto exact = alone_.find(bucket);
  const bool is_stale =
      exact == alone_.end() || n_mixed_steps_ - exact->second.measured_at > kStepsUntilStale;
  if (is_stale && n_mixed_steps_ - last_timed_at_ >= kStepsBetweenTimings) return 0;
  int64_t rows = kFirstRows;
  if (row_seconds_ > 0) {
    const double extra_seconds = alone->seconds * (max_slowdown_ - 1) * kAim;
    rows = static_cast<int64_t>(std::min(extra_seconds / row_seconds_, static_cast<double>(most)));
  }
  rows = std::min(rows, std::max(2 * last_rows_, kFirstRows));
  return std::min(std::max(rows, kLeastRows), most);
}

void PrefillPace::record(int64_t n_decode_rows, int64_t n_prompt_rows, double seconds) {
  if (!is_on() || !(seconds > 0)) return;
  const auto prompt_rows = static_cast<double>(n_prompt_rows);
  if (n_decode_rows == 0) {
    if (n_prompt_rows > 0 && !row_was_mixed_) row_seconds_ = seconds / prompt_rows;
    return;
  }
  if (n_prompt_rows == 0) {
    const auto [place, is_new] = alone_.try_emplace(bucket_of(n_decode_rows));
    Alone& alone = place->second;
    alone.seconds = is_new ? seconds : alone.seconds + kNewShare * (seconds - alone.seconds);
    alone.measured_at = last_timed_at_ = n_mixed_steps_;
    return;
  }
  ++n_mixed_steps_;
  last_rows_ = n_prompt_rows;
  const Alone* const alone = nearest(bucket_of(n_decode_rows));
  const double extra = std::max(seconds - (alone == nullptr ? 0 : alone->seconds), 0.0) / prompt_rows;
  row_seconds_ = row_was_mixed_ ? row_seconds_ + kNewRowShare * (extra - row_seconds_) : extra;
  row_was_mixed_ = true;
}

}  // namespace soli
