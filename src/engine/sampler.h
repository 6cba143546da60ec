#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/rng.h"

namespace soli {

/// How the next token is drawn from logits. The order is that of llama.cpp: penalty, top-k, top-p, min-p,
/// temperature.
struct SamplingParams {
  double temperature = 0.8;    // 0: the most likely token, the lower id on a tie
  int64_t top_k = 40;          // keep the k most likely; 0: all
  double top_p = 0.95;         // keep the smallest set whose probabilities sum to at least p; 1: all
  double min_p = 0.05;         // keep tokens with at least this share of the best one's probability; 0: all
  double repeat_penalty = 1;   // divides positive and multiplies negative logits of recent tokens; 1: off
  int64_t repeat_last_n = 64;  // how many recent tokens are penalised; 0: none
  uint64_t seed = 0;

  /// Fails with kInvalidArgument, naming the parameter, its value and what is allowed.
  Status validate() const;
};

/// Draws the tokens of one sequence. Deterministic for a seed: the n-th draw depends on the seed, n and the
/// logits only.
class Sampler {
 public:
  explicit Sampler(const SamplingParams& params) : params_(params), rng_(params.seed) {}

  /// The next token. `logits` is [vocab], not empty; one that is not finite counts as the nearest finite one,
  /// NaN as the least. `recent` are the tokens of the sequence so far, the newest last.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> recent);

 private:
  struct Candidate {
    int32_t token;
    float logit;
    double weight;  // exp of what the logit lies below the best one, so the best one's is 1
  };
  static bool better(const Candidate& a, const Candidate& b);

  void fill_candidates(std::span<const float> logits, std::span<const int32_t> recent);
  void keep_top_k();
  void keep_top_p();
  void weigh(float best_logit, double temperature);
  int32_t draw();

  SamplingParams params_;
  Rng rng_;
  std::vector<Candidate> candidates_;  // those still in play
};

/// The id of the largest logit, the lower id on a tie.
int32_t argmax(std::span<const float> logits);

/// ln of the softmax of logits[token], in double precision.
double log_probability(std::span<const float> logits, int32_t token);

}  // namespace soli
