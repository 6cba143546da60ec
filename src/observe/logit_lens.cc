#include "observe/logit_lens.h"

#include <algorithm>

#include "base/check.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace soli {

LogitLens::LogitLens(const Model& model, ActivationPrecision activations, int64_t n_top)
    : model_(model),
      context_{model.runtime().team(), model.runtime().kernels(), activations},
      n_top_(std::min(n_top, model.spec().vocab_size)),
      normed_(static_cast<size_t>(kMaxRows * model.spec().hidden_size)),
      logits_(static_cast<size_t>(kMaxRows * model.spec().vocab_size)) {
  SOLI_CHECK(n_top > 0, "{} tokens", n_top);
}

int64_t LogitLens::bytes_needed(const ModelSpec& spec) {
  // Twice the rows, since they are converted for the multiplication.
  return kMaxRows * (2 * spec.hidden_size + spec.vocab_size) * static_cast<int64_t>(sizeof(float));
}

void LogitLens::say(MatrixView<const float> x, std::span<SaidToken> said) {
  SOLI_CHECK(x.rows <= kMaxRows && static_cast<int64_t>(said.size()) == x.rows * n_top_, "{} rows", x.rows);
  const ModelSpec& spec = model_.spec();
  const GlobalWeights& global = model_.global();
  const MatrixView<float> normed(normed_.data(), x.rows, spec.hidden_size);
  const MatrixView<float> logits(logits_.data(), x.rows, spec.vocab_size);
  rms_norm(context_, x, {global.output_norm, global.output_norm_bias, static_cast<float>(spec.norm_epsilon)},
           normed);
  linear(context_, model_.output(), normed, logits);
  scale_rows(context_, static_cast<float>(1 / spec.logit_scale), logits);
  context_.team.parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      say_row(logits.row(row), said.subspan(static_cast<size_t>(row * n_top_), static_cast<size_t>(n_top_)));
    }
  });
}

/// Chosen by logit, since probabilities of different logits may be equal.
void LogitLens::say_row(float* logits, std::span<SaidToken> said) const {
  const int64_t vocab_size = model_.spec().vocab_size;
  size_t n = 0;
  for (int64_t token = 0; token < vocab_size; ++token) {
    if (n == said.size() && !(logits[token] > logits[said[n - 1].token])) continue;
    size_t place = n < said.size() ? n++ : n - 1;
    for (; place > 0 && logits[token] > logits[said[place - 1].token]; --place) said[place] = said[place - 1];
    said[place].token = static_cast<int32_t>(token);
  }
  context_.kernels.softmax(logits, vocab_size);
  for (SaidToken& each : said) each.probability = logits[each.token];
}

}  // namespace soli
