// The pace of prompts beside decoding, on machines that are made of numbers.

#include "engine/prefill_pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/rng.h"

namespace soli {
namespace {

constexpr double kSlowdown = 2.5;
constexpr int64_t kMost = 512;

/// Seconds of a step of so many decode rows and prompt rows.
using Machine = std::function<double(int64_t, int64_t)>;

struct PacedRun {
  std::vector<double> slowdowns;  // of the steps with prompts
  int64_t n_prompt_rows = 0;
  int64_t n_without = 0;  // steps in which no prompt was read
};

PacedRun run(PrefillPace& pace, const Machine& machine, int64_t n_decode_rows, int n_steps) {
  PacedRun result;
  for (int i = 0; i < n_steps; ++i) {
    const int64_t rows = pace.rows_beside(n_decode_rows, kMost);
    const double seconds = machine(n_decode_rows, rows);
    pace.record(n_decode_rows, rows, seconds);
    if (rows > 0) result.slowdowns.push_back(seconds / machine(n_decode_rows, 0));
    result.n_prompt_rows += rows;
    result.n_without += rows == 0 ? 1 : 0;
  }
  return result;
}

double largest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

// Decoding costs a sweep over the weights, prompts their arithmetic.
double plain(int64_t decode, int64_t prompt) {
  return 0.02 + 0.002 * static_cast<double>(decode) + 0.001 * static_cast<double>(prompt);
}

TEST(PrefillPace, WithoutALimitPromptsTakeAllThereIs) {
  PrefillPace pace(0);
  EXPECT_FALSE(pace.is_on());
  EXPECT_EQ(pace.rows_beside(16, kMost), kMost);
  PrefillPace limited(kSlowdown);
  EXPECT_EQ(limited.rows_beside(0, kMost), kMost) << "nobody decodes";
  EXPECT_EQ(limited.rows_beside(0, 3), 3);
}

TEST(PrefillPace, StepsStayBelowTheLimitAndComeNearIt) {
  for (const int64_t n_decode_rows : {1, 4, 16, 32}) {
    PrefillPace pace(kSlowdown);
    const PacedRun first = run(pace, plain, n_decode_rows, 20);
    EXPECT_LT(largest(first.slowdowns), kSlowdown) << n_decode_rows << ": from the first step on";
    const PacedRun later = run(pace, plain, n_decode_rows, 200);
    EXPECT_LT(largest(later.slowdowns), kSlowdown);
    EXPECT_GT(*std::min_element(later.slowdowns.begin(), later.slowdowns.end()), 1.9);
    EXPECT_LE(later.n_without, 4) << "decoding alone is timed seldom";
  }
}

TEST(PrefillPace, ACostThatBeginsWithAJumpIsLearnt) {
  // The first rows of a prompt call experts that decoding left alone.
  const auto machine = [](int64_t decode, int64_t prompt) {
    return plain(decode, prompt) + 0.02 * std::min(1.0, static_cast<double>(prompt) / 10);
  };
  PrefillPace pace(kSlowdown);
  run(pace, machine, 16, 20);
  EXPECT_LT(largest(run(pace, machine, 16, 200).slowdowns), kSlowdown);
}

TEST(PrefillPace, PromptsGetTheirShareOfTheTimeWhereEveryRowIsTooDear) {
  const auto machine = [](int64_t decode, int64_t prompt) {
    return plain(decode, 0) + 1.0 * static_cast<double>(prompt);
  };
  PrefillPace pace(kSlowdown);
  run(pace, machine, 1, 20);
  const PacedRun later = run(pace, machine, 1, 20'000);
  const double alone = 20'000 * plain(1, 0);
  EXPECT_NEAR((alone + static_cast<double>(later.n_prompt_rows)) / alone, kSlowdown, 0.1);
}

/// Experts on the disk: the first rows of a step call nearly all of them, and further ones cost next to
/// nothing.
TEST(PrefillPace, ChunksAreWholeWhereAFewRowsCostAsMuch) {
  const auto machine = [](int64_t decode, int64_t prompt) {
    const double n_called = 1 - std::pow(1 - 1.0 / 16, static_cast<double>(decode + prompt));
    return 8 * n_called + 0.001 * static_cast<double>(decode + prompt);
  };
  for (const int64_t n_decode_rows : {1, 4, 16}) {
    PrefillPace pace(kSlowdown, true);
    pace.record(0, 50, machine(0, 50));  // the first prompts, before anybody decodes
    run(pace, machine, n_decode_rows, 200);
    const PacedRun later = run(pace, machine, n_decode_rows, 500);
    const double alone = 500 * machine(n_decode_rows, 0);
    double all = static_cast<double>(later.n_without) * machine(n_decode_rows, 0);
    for (const double slowdown : later.slowdowns) all += slowdown * machine(n_decode_rows, 0);
    EXPECT_LT(all / alone, kSlowdown * 1.05) << n_decode_rows << ": in the mean";
    // What the time that is allowed for prompts could read at most, in whole chunks.
    const double chunk = machine(n_decode_rows, kMost) - machine(n_decode_rows, 0);
    const double possible = (kSlowdown - 1) * alone / chunk * kMost;
    EXPECT_GT(static_cast<double>(later.n_prompt_rows), 0.7 * std::min(possible, 500.0 * kMost));
  }
}

TEST(PrefillPace, StepsStayBelowTheLimitWhereMemoryHoldsWhatIsCalled) {
  PrefillPace pace(kSlowdown, true);
  run(pace, plain, 16, 40);  // with a whole chunk, to see what it takes
  const PacedRun later = run(pace, plain, 16, 200);
  EXPECT_LT(largest(later.slowdowns), kSlowdown);
  EXPECT_GT(later.slowdowns.back(), 1.9);
}

TEST(PrefillPace, FollowsAMachineThatChanges) {
  PrefillPace pace(kSlowdown);
  run(pace, plain, 16, 100);
  const auto slower = [](int64_t decode, int64_t prompt) {
    return plain(decode, 0) + 0.004 * static_cast<double>(prompt);
  };
  run(pace, slower, 16, 10);
  EXPECT_LT(largest(run(pace, slower, 16, 100).slowdowns), kSlowdown);
  const auto longer = [](int64_t decode, int64_t prompt) { return 2 * plain(decode, prompt); };
  run(pace, longer, 16, 200);
  EXPECT_GT(run(pace, longer, 16, 100).slowdowns.back(), 1.9) << "as contexts grow, so do the steps";
}

TEST(PrefillPace, NumbersOfDecodingRowsMayChangeAllTheTime) {
  Rng rng(1);
  PrefillPace pace(kSlowdown);
  int64_t n_without = 0;
  constexpr int kSteps = 2000;
  for (int i = 0; i < kSteps; ++i) {
    const auto decode = static_cast<int64_t>(1 + rng.next_below(32));
    const int64_t rows = pace.rows_beside(decode, kMost);
    n_without += rows == 0 ? 1 : 0;
    const double seconds = plain(decode, rows);
    pace.record(decode, rows, seconds);
    if (i > 500) {
      ASSERT_LT(seconds / plain(decode, 0), kSlowdown * 1.05) << i;
    }
  }
  EXPECT_LT(n_without, kSteps / PrefillPace::kStepsBetweenTimings);
}

TEST(PrefillPace, ATimeOfZeroOrLessTeachesNothing) {
  PrefillPace pace(kSlowdown);
  pace.record(4, 0, 0);
  pace.record(4, 8, -1);
  EXPECT_EQ(pace.rows_beside(4, kMost), 0) << "still to be timed";
}

}  // namespace
}  // namespace soli
