#pragma once

#include <cstdint>
#include <map>

namespace soli {

/// How many rows of prompts may join a step in which others decode, so that the step takes at most
/// `max_slowdown` times as long as without them. Goes by what steps took: of decode rows alone, by their
/// number, and of each row of a prompt beside them. Where a few rows cost nearly as much as a whole chunk, as
/// they do when experts are read from the disk for them, chunks are whole, and the limit holds for the mean
/// over steps: as many without prompts follow.
class PrefillPace {
 public:
  /// `max_slowdown` 0: no limit. `chunks_share_reads`: what a chunk reads from the disk serves all its rows,
  /// so that whole chunks may be worth their wait; with weights in memory, that is not looked for.
  explicit PrefillPace(double max_slowdown, bool chunks_share_reads = false)
      : max_slowdown_(max_slowdown), chunks_share_reads_(chunks_share_reads) {}

  bool is_on() const { return max_slowdown_ > 0; }
  /// At most `most`, and kLeastRows at least, so that prompts get on; or 0 for a step that shows what
  /// decoding alone takes now, or that makes good for slower ones.
  int64_t rows_beside(int64_t n_decode_rows, int64_t most) const;
  /// What a step took.
  void record(int64_t n_decode_rows, int64_t n_prompt_rows, double seconds);

  static constexpr int64_t kLeastRows = 4;
  static constexpr int64_t kFirstRows = 16;        // before a cost per row is known; then at most doubled
  static constexpr int64_t kStepsUntilStale = 64;  // steps with prompts, after which decoding is timed again
  static constexpr int64_t kStepsBetweenTimings = 8;
  static constexpr double kAim = 0.8;     // of the slowdown beyond 1 that is allowed: times vary
  static constexpr double kWasteful = 4;  // a row of a small chunk costs so many times one of a large chunk

 private:
  struct Alone {
    double seconds = 0;
    int64_t measured_at = 0;  // n_mixed_steps_ then
  };
  static int64_t bucket_of(int64_t n_decode_rows);
  const Alone* nearest(int64_t bucket) const;
  double allowed_seconds(const Alone& alone) const { return alone.seconds * (max_slowdown_ - 1); }
  int64_t affordable_rows(const Alone& alone) const;
  /// Whether prompts are better read in whole chunks, as far as that is known.
  bool is_wasteful() const { return chunks_share_reads_ && row_seconds_ > kWasteful * large_row_seconds_; }
  void record_chunk(int64_t n_rows, double row_seconds);

  const double max_slowdown_;
  const bool chunks_share_reads_;
  std::map<int64_t, Alone> alone_;  // steps of decode rows only, by bucket
  int64_t n_mixed_steps_ = 0;
  int64_t last_timed_at_ = 0;  // n_mixed_steps_ at the last step of decode rows only
  double row_seconds_ = 0;     // of a prompt's row beside decode rows; 0: not known
  bool row_was_mixed_ = false;
  int64_t last_rows_ = 0;         // of prompts in the last mixed step
  double owed_seconds_ = 0;       // what steps took beyond what is allowed, not made good yet
  int64_t large_rows_ = 0;        // of the largest chunk so far
  double large_row_seconds_ = 0;  // of a row of such a chunk
};

}  // namespace soli
