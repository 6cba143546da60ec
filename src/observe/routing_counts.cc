#include "observe/routing_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "observe/expert_shares.h"

namespace soli {

double Moments::deviation() const {
  if (n == 0) return 0;
  const double m = mean();
  return std::sqrt(std::max(0.0, squares / static_cast<double>(n) - m * m));
}

size_t profile_position_bin(int64_t position) {
  return std::min<size_t>(std::bit_width(static_cast<uint64_t>(position)), kProfilePositionBins - 1);
}

void PositionSums::merge(const PositionSums& other) {
  n_tokens += other.n_tokens;
  n_calls += other.n_calls;
  effective_experts += other.effective_experts;
  gate_entropy_bits += other.gate_entropy_bits;
}

LayerCounts::LayerCounts(int64_t n_experts, bool counts_pairs)
    : calls(static_cast<size_t>(n_experts)), pairs(counts_pairs ? n_pairs(n_experts) : 0) {}

void LayerCounts::add(const ProfiledToken& token, std::span<const int32_t> sorted) {
  const auto k = static_cast<int64_t>(sorted.size());
  const double effective = soli::effective_experts(token.calls);
  chosen.add(static_cast<double>(k));
  effective_experts.add(effective);
  gate_entropy_bits.add(token.gate_entropy_bits);
  if (token.has_margin) margin.add(token.margin);
  for (size_t i = 0; i < sorted.size(); ++i) {
    ++calls[static_cast<size_t>(sorted[i])];
    for (size_t j = 0; j < i && !pairs.empty(); ++j) ++pairs[pair_place(sorted[j], sorted[i])];
  }
  positions[profile_position_bin(token.position)].merge({1, k, effective, token.gate_entropy_bits});
}

void LayerCounts::merge(const LayerCounts& other) {
  SOLI_CHECK(calls.size() == other.calls.size() && pairs.size() == other.pairs.size());
  for (size_t e = 0; e < calls.size(); ++e) calls[e] += other.calls[e];
  for (size_t p = 0; p < pairs.size(); ++p) pairs[p] += other.pairs[p];
  chosen.merge(other.chosen);
  effective_experts.merge(other.effective_experts);
  gate_entropy_bits.merge(other.gate_entropy_bits);
  margin.merge(other.margin);
  overlap.merge(other.overlap);
  top1_changes += other.top1_changes;
  for (size_t b = 0; b < batches.size(); ++b) batches[b].merge(other.batches[b]);
  for (size_t b = 0; b < positions.size(); ++b) positions[b].merge(other.positions[b]);
}

double jaccard(std::span<const int32_t> a, std::span<const int32_t> b) {
  size_t shared = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    shared += a[i] == b[j] ? 1 : 0;
    const bool step_a = a[i] <= b[j];
    const bool step_b = b[j] <= a[i];
    i += step_a ? 1 : 0;
    j += step_b ? 1 : 0;
  }
  const size_t united = a.size() + b.size() - shared;
  return united == 0 ? 1 : static_cast<double>(shared) / static_cast<double>(united);
}

}  // namespace soli
