#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace soli {
namespace {

/// exp(x) for x <= 0, by range reduction to |r| <= ln(2) / 2 and the Taylor series. libm's exp differs in the
/// last bit between machines with and without FMA, which could flip a draw; this one does not.
double portable_exp(double x) {
  constexpr double kLeast = -708;  // below it results would be subnormal
  if (!(x > kLeast)) return 0;
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42feep-1;  // few bits, so that n * kLn2High is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double n = std::floor(x * kLog2E + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  constexpr int kTerms = 14;
  double sum = 1;
  for (int k = kTerms; k >= 1; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, static_cast<int>(n));
}

/// Infinite and NaN logits become the largest and smallest finite ones, so that the order of candidates is
/// total.
float finite(double logit) {
  constexpr double kMax = std::numeric_limits<float>::max();
  return std::isnan(logit) ? -std::numeric_limits<float>::max()
                           : static_cast<float>(std::clamp(logit, -kMax, kMax));
}

float penalised(float logit, double penalty) {
  const auto value = static_cast<double>(logit);
  return finite(value > 0 ? value / penalty : value * penalty);
}

/// ln of the softmax of one row of logits.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits)
      : largest_(static_cast<double>(*std::max_element(logits.begin(), logits.end()))) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest_);
    log_sum_ = std::log(sum);
  }
  double of(float logit) const { return static_cast<double>(logit) - largest_ - log_sum_; }

 private:
  double largest_;
  double log_sum_ = 0;
};

/// Beyond it a shift of a logit has no further effect worth the name.
constexpr double kMaxShift = 1e6;

Status check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return fail(ErrorKind::kInvalidArgument, "{} is {}; allowed is {} to {}", name, value, least, most);
}

Status check_not_negative(const char* name, int64_t value) {
  if (value >= 0) return {};
  return fail(ErrorKind::kInvalidArgument, "{} is {}; allowed is 0 or more", name, value);
}

}  // namespace

Status SamplingParams::validate() const {
  if (!(temperature >= 0) || !std::isfinite(temperature)) {
    return fail(ErrorKind::kInvalidArgument, "temperature is {}; allowed is 0 or more, and finite",
                temperature);
  }
  SOLI_RETURN_IF_ERROR(check_not_negative("top_k", top_k));
  SOLI_RETURN_IF_ERROR(check_range("top_p", top_p, 0, 1));
  SOLI_RETURN_IF_ERROR(check_range("min_p", min_p, 0, 1));
  if (!(repeat_penalty > 0) || !std::isfinite(repeat_penalty)) {
    return fail(ErrorKind::kInvalidArgument, "repeat_penalty is {}; allowed is above 0, and finite",
                repeat_penalty);
  }
  SOLI_RETURN_IF_ERROR(check_range("frequency_penalty", frequency_penalty, -kMaxShift, kMaxShift));
  SOLI_RETURN_IF_ERROR(check_range("presence_penalty", presence_penalty, -kMaxShift, kMaxShift));
  for (const LogitBias& entry : logit_bias) {
    SOLI_RETURN_IF_ERROR(check_range("logit_bias", entry.bias, -kMaxShift, kMaxShift));
  }
  return check_not_negative("repeat_last_n", repeat_last_n);
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> recent) {
  SOLI_CHECK(!logits.empty());
  const int32_t token = choose(logits, recent);
  if (counts_draws()) ++n_drawn_[token];
  return token;
}

int32_t Sampler::choose(std::span<const float> logits, std::span<const int32_t> recent) {
  if (params_.temperature == 0 && takes_logits_as_they_are()) {
    const int32_t best = argmax(logits);
    // At the ends of the range, others may count as much.
    if (std::abs(logits[static_cast<size_t>(best)]) < std::numeric_limits<float>::max()) return best;
  }
  fill_candidates(logits, recent);
  const Candidate best = *std::min_element(candidates_.begin(), candidates_.end(), better);
  if (params_.temperature == 0) return best.token;
  keep_top_k();
  weigh(best.logit, 1);
  keep_top_p();
  std::erase_if(candidates_,
                [&](const Candidate& c) { return c.weight < params_.min_p; });  // the best one's is 1
  weigh(best.logit, params_.temperature);
  return draw();
}

bool Sampler::better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

void Sampler::fill_candidates(std::span<const float> logits, std::span<const int32_t> recent) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates_[i] = {static_cast<int32_t>(i), finite(static_cast<double>(logits[i])), 0};
  }
  add_bias();
  penalise_repeats(recent);
  penalise_draws();
}

void Sampler::add_bias() {
  for (const LogitBias& entry : params_.logit_bias) {
    if (entry.token < 0 || static_cast<size_t>(entry.token) >= candidates_.size()) continue;
    float& logit = candidates_[static_cast<size_t>(entry.token)].logit;
    logit = finite(static_cast<double>(logit) + entry.bias);
  }
}

void Sampler::penalise_repeats(std::span<const int32_t> recent) {
  if (params_.repeat_penalty == 1) return;
  const size_t n_penalised = std::min(recent.size(), static_cast<size_t>(params_.repeat_last_n));
  // A token that occurs twice is penalised once.
  distinct_.assign(recent.end() - static_cast<std::ptrdiff_t>(n_penalised), recent.end());
  std::sort(distinct_.begin(), distinct_.end());
  distinct_.erase(std::unique(distinct_.begin(), distinct_.end()), distinct_.end());
  for (const int32_t token : distinct_) {
    if (token < 0 || static_cast<size_t>(token) >= candidates_.size()) continue;
    float& logit = candidates_[static_cast<size_t>(token)].logit;
    logit = penalised(logit, params_.repeat_penalty);
  }
}

void Sampler::penalise_draws() {
  for (const auto& [token, n] : n_drawn_) {
    float& logit = candidates_[static_cast<size_t>(token)].logit;
    logit = finite(static_cast<double>(logit) - n * params_.frequency_penalty - params_.presence_penalty);
  }
}

void Sampler::keep_top_k() {
  if (params_.top_k == 0 || params_.top_k >= static_cast<int64_t>(candidates_.size())) return;
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(params_.top_k);
  std::nth_element(candidates_.begin(), end, candidates_.end(), better);
  candidates_.erase(end, candidates_.end());
  // nth_element leaves an order that depends on the standard library.
  std::sort(candidates_.begin(), candidates_.end(), better);
}

void Sampler::keep_top_p() {
  if (params_.top_p >= 1) return;
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  // A heap yields the best ones in order without sorting the rest; each one popped goes behind the heap.
  const auto worse = [](const Candidate& a, const Candidate& b) { return better(b, a); };
  std::make_heap(candidates_.begin(), candidates_.end(), worse);
  auto heap_end = candidates_.end();
  double kept = 0;
  do {
    std::pop_heap(candidates_.begin(), heap_end--, worse);
    kept += heap_end->weight;
  } while (heap_end != candidates_.begin() && kept < params_.top_p * total);
  candidates_.erase(candidates_.begin(), heap_end);
  std::reverse(candidates_.begin(), candidates_.end());
}

void Sampler::weigh(float best_logit, double temperature) {
  for (Candidate& candidate : candidates_) {
    const double difference = static_cast<double>(candidate.logit) - static_cast<double>(best_logit);
    candidate.weight = portable_exp(difference / temperature);
  }
}

int32_t Sampler::draw() {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  double left = rng_.next_unit() * total;
  int32_t token = candidates_.front().token;
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight == 0) continue;
    token = candidate.token;  // the last one, should rounding leave a rest
    left -= candidate.weight;
    if (left < 0) break;
  }
  return token;
}

int32_t argmax(std::span<const float> logits) {
  std::array<float, 16> maxima;  // side by side, in vector registers
  maxima.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + maxima.size() <= logits.size(); i += maxima.size()) {
    for (size_t j = 0; j < maxima.size(); ++j) maxima[j] = std::max(maxima[j], logits[i + j]);
  }
  for (; i < logits.size(); ++i) maxima[0] = std::max(maxima[0], logits[i]);
  const float maximum = *std::max_element(maxima.begin(), maxima.end());
  const auto place = std::find(logits.begin(), logits.end(), maximum);
  return place == logits.end() ? 0 : static_cast<int32_t>(place - logits.begin());
}

double log_probability(std::span<const float> logits, int32_t token) {
  SOLI_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size(), "token {} of {}", token,
             logits.size());
  return LogSoftmax(logits).of(logits[static_cast<size_t>(token)]);
}

double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  SOLI_CHECK(p_logits.size() == q_logits.size(), "{} and {} tokens", p_logits.size(), q_logits.size());
  const LogSoftmax p(p_logits);
  const LogSoftmax q(q_logits);
  double kl = 0;
  for (size_t i = 0; i < p_logits.size(); ++i) {
    const double log_p = p.of(p_logits[i]);
    kl += std::exp(log_p) * (log_p - q.of(q_logits[i]));
  }
  return std::max(0.0, kl);  // rounding may leave a little less
}

std::vector<TokenLogprob> top_log_probabilities(std::span<const float> logits, int64_t n) {
  if (logits.empty() || n <= 0) return {};
  const auto better = [&](int32_t a, int32_t b) {
    const float x = finite(static_cast<double>(logits[static_cast<size_t>(a)]));
    const float y = finite(static_cast<double>(logits[static_cast<size_t>(b)]));
    return x != y ? x > y : a < b;
  };
  std::vector<int32_t> best(std::min(logits.size(), static_cast<size_t>(n)));
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort_copy(ids.begin(), ids.end(), best.begin(), best.end(), better);
  const LogSoftmax softmax(logits);
  std::vector<TokenLogprob> top;
  for (const int32_t id : best) top.push_back({id, softmax.of(logits[static_cast<size_t>(id)])});
  return top;
}

}  // namespace soli
