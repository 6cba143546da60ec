#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix.h"
#include "model/model.h"
#include "ops/context.h"

namespace soli {

/// A token, and its probability.
struct SaidToken {
  int32_t token = 0;
  float probability = 0;
};

/// Logit lens (nostalgebraist 2020, "interpreting GPT: the logit lens"): what a vector of the residual stream
/// says, if nothing else were in it. The vector goes through the model's last norm and output head, with
/// their biases and scale, as the final hidden state does; the norm takes its length away. Borrows the model;
/// one thread at a time, which may use the thread team.
class LogitLens {
 public:
  static constexpr int64_t kMaxRows = 32;  // of one call: the output head is read once for them

  /// Says the `n_top` most likely tokens, or all there are. n_top > 0.
  LogitLens(const Model& model, ActivationPrecision activations, int64_t n_top);
  /// Memory that it takes.
  static int64_t bytes_needed(const ModelSpec& spec);

  int64_t n_top() const { return n_top_; }
  /// said[i * n_top()] and following: of row i of x, the most likely first, the lower id on a tie. x is [1 to
  /// kMaxRows][hidden].
  void say(MatrixView<const float> x, std::span<SaidToken> said);

 private:
  void say_row(float* logits, std::span<SaidToken> said) const;

  const Model& model_;
  OpContext context_;
  const int64_t n_top_;
  std::vector<float> normed_;  // [kMaxRows][hidden]
  std::vector<float> logits_;  // [kMaxRows][vocab]
};

}  // namespace soli
