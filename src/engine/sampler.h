#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/rng.h"

namespace soli {

/// What is added to the logit of one token.
struct LogitBias {
  int32_t token = 0;
  double bias = 0;

  bool operator==(const LogitBias&) const = default;
};

/// How the next token is drawn from logits. The order is that of llama.cpp: bias, penalties, top-k, top-p,
/// min-p, temperature.
struct SamplingParams {
  double temperature = 0.8;      // 0: the most likely token, the lower id on a tie
  int64_t top_k = 40;            // keep the k most likely; 0: all
  double top_p = 0.95;           // keep the smallest set whose probabilities sum to at least p; 1: all
  double min_p = 0.05;           // keep tokens with at least this share of the best one's probability; 0: all
  double repeat_penalty = 1;     // divides positive and multiplies negative logits of recent tokens; 1: off
  int64_t repeat_last_n = 64;    // how many recent tokens are penalised; 0: none
  double frequency_penalty = 0;  // taken off the logit of a drawn token, once for each time it was drawn
  double presence_penalty = 0;   // taken off the logit of every token that was drawn
  std::vector<LogitBias> logit_bias = {};  // one for each token; those outside the vocabulary do nothing
  uint64_t seed = 0;

  /// Fails with kInvalidArgument, naming the parameter, its value and what is allowed.
  Status validate() const;
};

/// Draws the tokens of one sequence. Deterministic for a seed: the n-th draw depends on the seed, n and the
/// logits only, and with a penalty on the tokens before it.
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

  bool counts_draws() const { return params_.frequency_penalty != 0 || params_.presence_penalty != 0; }
  bool takes_logits_as_they_are() const {
    return params_.repeat_penalty == 1 && params_.logit_bias.empty() && !counts_draws();
  }
  int32_t choose(std::span<const float> logits, std::span<const int32_t> recent);
  void fill_candidates(std::span<const float> logits, std::span<const int32_t> recent);
  void add_bias();
  void penalise_repeats(std::span<const int32_t> recent);
  void penalise_draws();
  void keep_top_k();
  void keep_top_p();
  void weigh(float best_logit, double temperature);
  int32_t draw();

  SamplingParams params_;
  Rng rng_;
  std::vector<Candidate> candidates_;            // those still in play
  std::unordered_map<int32_t, double> n_drawn_;  // of each token; empty where no penalty asks
  std::vector<int32_t> distinct_;                // of the recent tokens
};

/// The id of the largest logit, the lower id on a tie.
int32_t argmax(std::span<const float> logits);

/// ln of the softmax of logits[token], in double precision.
double log_probability(std::span<const float> logits, int32_t token);

/// KL(p || q) in nats of the distributions that two rows of logits mean, in double precision. Kullback,
/// Leibler 1951, "On Information and Sufficiency".
double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits);

/// A token and ln of its probability.
struct TokenLogprob {
  int32_t token = 0;
  double logprob = 0;

  bool operator==(const TokenLogprob&) const = default;
};

/// The n most likely tokens, or all if there are fewer, the best first, the lower id on a tie. The numbers
/// are those of log_probability(), bit for bit.
std::vector<TokenLogprob> top_log_probabilities(std::span<const float> logits, int64_t n);

}  // namespace soli
