#include "observe/expert_shares.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace soli {
namespace {

int64_t sum_of(std::span<const int64_t> calls) {
  return std::accumulate(calls.begin(), calls.end(), int64_t{0});
}

double ratio(int64_t part, int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

}  // namespace

ExpertShares expert_shares(std::span<const int64_t> calls) {
  ExpertShares result;
  result.n_calls = sum_of(calls);
  if (result.n_calls == 0) return result;
  const auto n_experts = static_cast<double>(calls.size());
  const auto share = [&](int64_t n) { return ratio(n, result.n_calls); };
  const auto hottest = std::max_element(calls.begin(), calls.end());
  const auto coldest = std::min_element(calls.begin(), calls.end());
  result.hottest_expert = hottest - calls.begin();
  result.hottest_share = share(*hottest);
  result.coldest_expert = coldest - calls.begin();
  result.coldest_share = share(*coldest);
  result.max_over_mean = result.hottest_share * n_experts;
  double variance = 0;
  for (const int64_t n : calls) {
    const double s = share(n);
    variance += (s - 1 / n_experts) * (s - 1 / n_experts) / n_experts;
    if (n == 0) continue;
    ++result.distinct;
    result.entropy_bits -= s * std::log2(s);
  }
  // Of one expert with all the calls the sum is -0.
  result.entropy_bits = std::max(0.0, result.entropy_bits);
  if (calls.size() > 1) result.entropy_normalised = result.entropy_bits / std::log2(n_experts);
  result.variation = std::sqrt(variance) * n_experts;
  result.never_called = 1 - static_cast<double>(result.distinct) / n_experts;
  return result;
}

double effective_experts(std::span<const ExpertCall> calls) {
  double sum = 0;
  for (const ExpertCall& call : calls) sum += std::max(0.0, static_cast<double>(call.weight));
  double entropy = 0;
  for (const ExpertCall& call : calls) {
    if (!(call.weight > 0)) continue;
    const double weight = static_cast<double>(call.weight) / sum;
    entropy -= weight * std::log(weight);
  }
  return sum > 0 ? std::exp(entropy) : 0;
}

double expected_union(std::span<const int64_t> calls, int64_t n_tokens, double batch_tokens) {
  double sum = 0;
  for (const int64_t n : calls) {
    if (n > 0) sum += 1 - std::pow(1 - ratio(n, n_tokens), batch_tokens);
  }
  return sum;
}

double jensen_shannon_bits(std::span<const int64_t> a, std::span<const int64_t> b) {
  SOLI_CHECK(a.size() == b.size());
  const int64_t n_a = sum_of(a);
  const int64_t n_b = sum_of(b);
  if (n_a == 0 || n_b == 0) return 0;
  double bits = 0;
  for (size_t e = 0; e < a.size(); ++e) {
    const double p = ratio(a[e], n_a);
    const double q = ratio(b[e], n_b);
    const double mean = (p + q) / 2;
    if (p > 0) bits += p * std::log2(p / mean) / 2;
    if (q > 0) bits += q * std::log2(q / mean) / 2;
  }
  return std::clamp(bits, 0.0, 1.0);
}

double jensen_shannon_of_chance(int64_t n_kinds, int64_t n_a, int64_t n_b) {
  if (n_a == 0 || n_b == 0) return 0;
  return static_cast<double>(n_kinds - 1) * (1 / static_cast<double>(n_a) + 1 / static_cast<double>(n_b)) /
         (8 * std::numbers::ln2);
}

double specific_information_bits(std::span<const int64_t> part, std::span<const int64_t> whole) {
  SOLI_CHECK(part.size() == whole.size());
  const int64_t n_part = sum_of(part);
  const int64_t n_whole = sum_of(whole);
  double bits = 0;
  for (size_t e = 0; e < part.size(); ++e) {
    if (part[e] > 0)
      bits += ratio(part[e], n_part) * std::log2(ratio(part[e], n_part) / ratio(whole[e], n_whole));
  }
  return std::max(0.0, bits);
}

double excess_in_deviations(int64_t part_calls, int64_t part_tokens, int64_t calls, int64_t tokens) {
  if (tokens < 2) return 0;
  const double rate = ratio(calls, tokens);
  const double variance = static_cast<double>(part_tokens) * rate * (1 - rate) *
                          static_cast<double>(tokens - part_tokens) / static_cast<double>(tokens - 1);
  if (variance <= 0) return 0;
  return (static_cast<double>(part_calls) - static_cast<double>(part_tokens) * rate) / std::sqrt(variance);
}

}  // namespace soli
