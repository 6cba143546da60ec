#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace soli {

/// How much experts were called of late: heat <- heat * 2^(-dt / half-life) + calls, per (layer, expert),
/// with time in tokens. Each layer has a clock of its own, the rows that it has seen, so that heats of two
/// layers compare rightly while a step has reached one of them only. One thread.
///
/// Decay is lazy: what is stored is heat * 2^(clock / half-life), which no passing of time changes.
class Heat {
 public:
  /// Cold, where `tokens` have passed before.
  Heat(int64_t n_layers, int64_t n_experts, double half_life_tokens, int64_t tokens = 0);

  /// Tokens pass at a layer. To be called before their calls are added.
  void pass(int64_t layer, int64_t n_tokens);
  void add(int64_t layer, int64_t expert, double calls) {
    stored_[index(layer, expert)] += calls * growth_[static_cast<size_t>(layer)];
  }
  /// By the present clock of its layer.
  double at(int64_t layer, int64_t expert) const {
    return stored_[index(layer, expert)] * decay_[static_cast<size_t>(layer)];
  }

  /// The same, of the expert with a number in the whole model (layer * n_experts + expert).
  double at_number(size_t layer, int32_t number) const {
    return stored_[static_cast<size_t>(number)] * decay_[layer];
  }

  int64_t n_layers() const { return static_cast<int64_t>(growth_.size()); }
  int64_t n_experts() const { return n_experts_; }
  double half_life_tokens() const { return half_life_tokens_; }
  /// Tokens that have passed at the layer that saw most of them.
  int64_t tokens() const { return tokens_; }

 private:
  size_t index(int64_t layer, int64_t expert) const {
    return static_cast<size_t>(layer * n_experts_ + expert);
  }

  int64_t n_experts_;
  double half_life_tokens_;
  std::vector<double> stored_;  // [layers * experts]
  // Of each layer's clock since its values were last scaled down:
  std::vector<double> half_lives_;  // clock / half-life
  std::vector<double> growth_;      // 2^half_lives
  std::vector<double> decay_;       // 2^-half_lives
  std::vector<int64_t> clock_;      // tokens, since the start
  int64_t tokens_ = 0;
};

/// What one call of a visit of `n_tokens` rows weighs at its end, if the calls lie evenly in it: as much as
/// in n_tokens visits of one row. 1 for one row. Adding all calls of a long prompt at its end would make them
/// outweigh, for many half-lives, what follows.
double weight_of_call(int64_t n_tokens, double half_life_tokens);

}  // namespace soli
