#include "engine/prefill_pace.h"

#include <algorithm>
#include <cmath>

namespace soli {
namespace {

constexpr double kNewShare = 0.3;  // of a new time in the mean of times
constexpr double kNewRowShare = 0.5;
constexpr double kNewLargeShare = 0.1;

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
  if (owed_seconds_ > allowed_seconds(*alone)) return 0;
  const bool is_untried = chunks_share_reads_ && 2 * large_rows_ < most;
  if (is_untried || is_wasteful()) return most;
  const int64_t rows = std::min(affordable_rows(*alone), std::max(2 * last_rows_, kFirstRows));
  return std::min(std::max(rows, kLeastRows), most);
}

int64_t PrefillPace::affordable_rows(const Alone& alone) const {
  if (!(row_seconds_ > 0)) return kFirstRows;
  constexpr double kMost = 1e9;
  return static_cast<int64_t>(std::min(allowed_seconds(alone) * kAim / row_seconds_, kMost));
}

void PrefillPace::record(int64_t n_decode_rows, int64_t n_prompt_rows, double seconds) {
  if (!is_on() || !(seconds > 0)) return;
  const auto prompt_rows = static_cast<double>(n_prompt_rows);
  if (n_decode_rows == 0) {
    owed_seconds_ = 0;
    if (n_prompt_rows == 0) return;
    if (!row_was_mixed_) row_seconds_ = seconds / prompt_rows;
    record_chunk(n_prompt_rows, seconds / prompt_rows);
    return;
  }
  if (n_prompt_rows == 0) {
    const auto [place, is_new] = alone_.try_emplace(bucket_of(n_decode_rows));
    Alone& alone = place->second;
    alone.seconds = is_new ? seconds : alone.seconds + kNewShare * (seconds - alone.seconds);
    alone.measured_at = last_timed_at_ = n_mixed_steps_;
    owed_seconds_ = std::max(owed_seconds_ - allowed_seconds(alone), 0.0);
    return;
  }
  ++n_mixed_steps_;
  last_rows_ = n_prompt_rows;
  const Alone* const alone = nearest(bucket_of(n_decode_rows));
  const double extra = std::max(seconds - (alone == nullptr ? 0 : alone->seconds), 0.0);
  if (alone != nullptr) owed_seconds_ = std::max(owed_seconds_ + extra - allowed_seconds(*alone), 0.0);
  record_chunk(n_prompt_rows, extra / prompt_rows);
  // A large chunk tells little of what a row of a small one costs; that it may have changed, all the same.
  const bool is_large = is_wasteful() && alone != nullptr && n_prompt_rows > 2 * affordable_rows(*alone);
  const double share = is_large ? kNewLargeShare : kNewRowShare;
  row_seconds_ =
      row_was_mixed_ ? row_seconds_ + share * (extra / prompt_rows - row_seconds_) : extra / prompt_rows;
  row_was_mixed_ = true;
}

void PrefillPace::record_chunk(int64_t n_rows, double row_seconds) {
  if (2 * n_rows < large_rows_) return;
  large_row_seconds_ = row_seconds;
  large_rows_ = std::max(large_rows_, n_rows);
}

}  // namespace soli
