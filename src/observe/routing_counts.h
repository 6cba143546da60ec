#pragma once

// What a routing profile is made of: counts and sums of one layer, in bounded memory, that can be added to
// those of other requests, threads or processes.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "observe/activation_recorder.h"

namespace soli {

/// Number, sum and sum of squares of some values.
struct Moments {
  int64_t n = 0;
  double sum = 0;
  double squares = 0;

  void add(double value) {
    ++n;
    sum += value;
    squares += value * value;
  }
  void merge(const Moments& other) {
    n += other.n;
    sum += other.sum;
    squares += other.squares;
  }
  double mean() const { return n > 0 ? sum / static_cast<double>(n) : 0; }
  /// Standard deviation, of these values and not of a population behind them.
  double deviation() const;
};

/// Tokens in a batch whose distinct experts are counted: so many consecutive tokens of one text.
inline constexpr std::array<int64_t, 9> kProfileBatches = {1, 2, 4, 8, 16, 32, 64, 128, 256};
/// Bin 0 is position 0, bin b > 0 is positions 2^(b-1) to 2^b - 1; the last has all beyond.
inline constexpr size_t kProfilePositionBins = 24;
size_t profile_position_bin(int64_t position);

struct BatchSums {
  int64_t n_batches = 0;
  int64_t distinct = 0;  // experts, summed over the batches

  void merge(const BatchSums& other) {
    n_batches += other.n_batches;
    distinct += other.distinct;
  }
};

struct PositionSums {
  int64_t n_tokens = 0;
  int64_t n_calls = 0;
  double effective_experts = 0;
  double gate_entropy_bits = 0;

  void merge(const PositionSums& other);
};

/// One token in one layer.
struct ProfiledToken {
  int64_t position = 0;
  std::span<const ExpertCall> calls = {};  // distinct experts
  double gate_entropy_bits = 0;
  bool has_margin = false;
  double margin = 0;  // between the k-th and the (k+1)-th largest router logit
};

struct LayerCounts {
  /// `counts_pairs` asks for room of n_experts (n_experts - 1) / 2 numbers.
  LayerCounts(int64_t n_experts, bool counts_pairs);

  /// Everything but what compares a token with others: RoutingWindow adds that. `sorted` are the experts,
  /// ascending.
  void add(const ProfiledToken& token, std::span<const int32_t> sorted);
  void merge(const LayerCounts& other);

  int64_t n_experts() const { return static_cast<int64_t>(calls.size()); }
  int64_t n_tokens() const { return chosen.n; }
  /// Place of the experts a < b in `pairs`.
  static size_t pair_place(int64_t a, int64_t b) { return static_cast<size_t>(b * (b - 1) / 2 + a); }
  static size_t n_pairs(int64_t n_experts) { return static_cast<size_t>(n_experts * (n_experts - 1) / 2); }

  std::vector<int64_t> calls;  // [n_experts]
  std::vector<int64_t> pairs;  // tokens that called both, or empty: not counted
  Moments chosen;              // experts of a token
  Moments effective_experts;
  Moments gate_entropy_bits;
  Moments margin;
  Moments overlap;           // Jaccard, of consecutive tokens
  int64_t top1_changes = 0;  // between them
  std::array<BatchSums, kProfileBatches.size()> batches = {};
  std::array<PositionSums, kProfilePositionBins> positions = {};
};

/// |a and b| / |a or b| of ascending ids; 1 of two empty sets.
double jaccard(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace soli
