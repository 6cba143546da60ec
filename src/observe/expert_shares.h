#pragma once

// Figures that follow from how often each expert of a layer was called. Pure functions; the definitions are
// those of docs/profiling.md.

#include <cstdint>
#include <span>

#include "observe/activation_recorder.h"

namespace soli {

/// Above which coefficient of variation of the shares, or which share of experts without a call, a routing is
/// biased.
inline constexpr double kBiasedVariation = 1;
inline constexpr double kBiasedNeverCalled = 0.1;

/// s_e: calls of expert e / all calls of the layer. All zero without a call.
struct ExpertShares {
  int64_t n_calls = 0;
  int64_t distinct = 0;        // experts with a call
  int64_t hottest_expert = 0;  // the lower id on a tie, as for the coldest
  double hottest_share = 0;
  int64_t coldest_expert = 0;
  double coldest_share = 0;
  double entropy_bits = 0;        // -sum s_e log2 s_e
  double entropy_normalised = 0;  // divided by log2 of the number of experts; 0 for one expert
  double variation = 0;           // coefficient of variation of s_e
  double max_over_mean = 0;
  double never_called = 0;  // share of experts
};
ExpertShares expert_shares(std::span<const int64_t> calls);

/// exp(-sum w ln w) over the weights of one token divided by their sum; 0 where none is positive.
double effective_experts(std::span<const ExpertCall> calls);

/// sum of 1 - (1 - r_e)^T with r_e = calls / n_tokens: distinct experts in T tokens that choose
/// independently.
double expected_union(std::span<const int64_t> calls, int64_t n_tokens, double batch_tokens);

/// Jensen-Shannon divergence of two distributions given by counts, [n] each, in bits: 0 equal, 1 disjoint. 0
/// where one has no counts.
double jensen_shannon_bits(std::span<const int64_t> a, std::span<const int64_t> b);
/// What that comes to by chance, to first order, where both are n_a and n_b independent draws from one
/// distribution over `n_kinds`: (n - 1) (1/n_a + 1/n_b) / (8 ln 2).
double jensen_shannon_of_chance(int64_t n_kinds, int64_t n_a, int64_t n_b);

/// Kullback-Leibler divergence of a part's shares from the whole's, in bits: what a call tells of belonging
/// to the part. The mean over parts that make up the whole, each weighted by its calls, is the mutual
/// information I(expert; part). `part[e]` <= `whole[e]`.
double specific_information_bits(std::span<const int64_t> part, std::span<const int64_t> whole);

/// How far the calls of one expert in a part lie above what a permutation of all tokens gives, in standard
/// deviations of that (hypergeometric: a token calls an expert at most once). 0 where nothing can vary.
double excess_in_deviations(int64_t part_calls, int64_t part_tokens, int64_t calls, int64_t tokens);

}  // namespace soli
