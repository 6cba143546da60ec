#include "experts/heat.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace soli {
namespace {

/// Far from the largest double, 2^1023, and beyond what any heat is remembered for.
constexpr double kMaxHalfLives = 256;

}  // namespace

Heat::Heat(int64_t n_layers, int64_t n_experts, double half_life_tokens, int64_t tokens)
    : n_experts_(n_experts),
      half_life_tokens_(half_life_tokens),
      stored_(static_cast<size_t>(n_layers * n_experts)),
      half_lives_(static_cast<size_t>(n_layers)),
      growth_(static_cast<size_t>(n_layers), 1.0),
      decay_(static_cast<size_t>(n_layers), 1.0),
      clock_(static_cast<size_t>(n_layers), tokens),
      tokens_(tokens) {
  SOLI_CHECK(std::isfinite(half_life_tokens) && half_life_tokens > 0, "half-life {}", half_life_tokens);
}

void Heat::pass(int64_t layer, int64_t n_tokens) {
  const auto l = static_cast<size_t>(layer);
  clock_[l] += n_tokens;
  tokens_ = std::max(tokens_, clock_[l]);
  half_lives_[l] += static_cast<double>(n_tokens) / half_life_tokens_;
  if (half_lives_[l] > kMaxHalfLives) {
    const double scale = std::exp2(-half_lives_[l]);
    for (int64_t e = 0; e < n_experts_; ++e) stored_[index(layer, e)] *= scale;
    half_lives_[l] = 0;
  }
  growth_[l] = std::exp2(half_lives_[l]);
  decay_[l] = 1 / growth_[l];
}

double weight_of_call(int64_t n_tokens, double half_life_tokens) {
  if (n_tokens <= 1) return 1;
  const auto n = static_cast<double>(n_tokens);
  const double step = std::log(2.0) / half_life_tokens;
  return std::expm1(-n * step) / (n * std::expm1(-step));
}

}  // namespace soli
