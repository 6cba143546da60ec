#pragma once

#include <cstdint>
#include <map>

namespace soli {

/// How many rows of prompts may join a step in which others decode, so that the step takes at most
/// `max_slowdown` times as long as without them. Goes by what steps took: of decode rows alone, by their
/// number, and of each row of a prompt beside them.
class PrefillPace {
 public:
  /// 0: no limit.
  explicit PrefillPace(double max_slowdown) : max_slowdown_(max_slowdown) {}

  bool is_on() const { return max_slowdown_ > 0; }
  /// At most `most`, and kLeastRows at least, so that prompts get on; or 0 for a step that shows what
  /// decoding alone takes now.
  int64_t rows_beside(int64_t n_decode_rows, int64_t most) const;
  /// What a step took.
  void record(int64_t n_decode_rows, int64_t n_prompt_rows, double seconds);

  static constexpr int64_t kLeastRows = 4;
  static constexpr int64_t kFirstRows = 16;        // before a cost per row is known; then at most doubled
  static constexpr int64_t kStepsUntilStale = 64;  // steps with prompts, after which decoding is timed again
  static constexpr int64_t kStepsBetweenTimings = 8;
  static constexpr double kAim = 0.8;  // of the slowdown beyond 1 that is allowed: times vary

 private:
  struct Alone {
    double seconds = 0;
    int64_t measured_at = 0;  // n_mixed_steps_ then
  };
  static int64_t bucket_of(int64_t n_decode_rows);
  const Alone* nearest(int64_t bucket) const;

  const double max_slowdown_;
  std::map<int64_t, Alone> alone_;  // steps of decode rows only, by bucket
  int64_t n_mixed_steps_ = 0;
  int64_t last_timed_at_ = 0;  // n_mixed_steps_ at the last step of decode rows only
  double row_seconds_ = 0;     // of a prompt's row beside decode rows; 0: not known
  bool row_was_mixed_ = false;
  int64_t last_rows_ = 0;  // of prompts in the last mixed step
};

}  // namespace soli
