#include "reference/rope.h"

#include <cmath>
#include <numbers>

#include "reference/math.h"

namespace soli::reference {
namespace {

constexpr double kBetaFast = 32;  // turns within the original context from which on nothing is stretched
constexpr double kBetaSlow = 1;   // turns up to which everything is

/// The pair that makes so many turns within the original context.
double pair_of_turns(double turns, int64_t n_rotated, double base, double original_context) {
  return static_cast<double>(n_rotated) * std::log(original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(base));
}

/// YaRN leaves high frequencies as they are, divides low ones by `factor`, and blends in between.
void stretch_by_yarn(double factor, int64_t n_rotated, double base, double original_context, Rope& rope) {
  const double low = std::max(0.0, std::floor(pair_of_turns(kBetaFast, n_rotated, base, original_context)));
  const double high = std::min(static_cast<double>(n_rotated - 1),
                               std::ceil(pair_of_turns(kBetaSlow, n_rotated, base, original_context)));
  for (size_t i = 0; i < rope.frequencies.size(); ++i) {
    const double way = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double kept = 1 - std::clamp(way, 0.0, 1.0);
    rope.frequencies[i] *= kept + (1 - kept) / factor;
  }
}

Vector frequency_factors(const TensorFile& file, const std::string& scaling, double original_context,
                         int64_t context_length) {
  if (scaling != "longrope") return file.vector_or_none("rope_freqs.weight");
  return file.vector(static_cast<double>(context_length) > original_context ? "rope_factors_long.weight"
                                                                            : "rope_factors_short.weight");
}

}  // namespace

Rope make_rope(const TensorFile& file, int64_t n_rotated, bool adjacent_pairs, int64_t context_length) {
  const double base = file.number_or("rope.freq_base", 10000);
  const std::string scaling = file.text_or("rope.scaling.type", "linear");
  const double written_factor = file.number_or("rope.scaling.factor", 0);
  const double factor = written_factor == 0 ? 1 : written_factor;
  const double original_context =
      file.number_or("rope.scaling.original_context_length", file.number_or("context_length", 0));
  const Vector factors = frequency_factors(file, scaling, original_context, context_length);

  Rope rope = {.adjacent_pairs = adjacent_pairs};
  for (int64_t i = 0; i < n_rotated / 2; ++i) {
    double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(n_rotated));
    if (!factors.empty()) frequency /= factors.at(static_cast<size_t>(i));
    rope.frequencies.push_back(frequency);
  }
  if (scaling == "linear") {
    for (double& frequency : rope.frequencies) frequency /= factor;
  } else if (scaling == "yarn") {
    stretch_by_yarn(factor, n_rotated, base, original_context, rope);
    // DeepSeek's models with this key have the factor on the scores instead (attention.cc).
    const bool on_scores = file.has_key("rope.scaling.yarn_log_multiplier");
    rope.magnitude = on_scores ? 1 : 1 + 0.1 * std::log(factor);
  } else if (scaling == "longrope") {
    rope.magnitude = file.number_or("rope.scaling.attn_factor", 1);
  } else {
    SOLI_CHECK(scaling == "none", "rope.scaling.type {}", scaling);
  }
  return rope;
}

void rotate(const Rope& rope, int64_t position, int64_t begin, Vector& head) {
  const size_t pairs = rope.frequencies.size();
  for (size_t i = 0; i < pairs; ++i) {
    const size_t first = static_cast<size_t>(begin) + (rope.adjacent_pairs ? 2 * i : i);
    const size_t second = first + (rope.adjacent_pairs ? 1 : pairs);
    const double angle = static_cast<double>(position) * rope.frequencies[i];
    const double cosine = std::cos(angle) * rope.magnitude;
    const double sine = std::sin(angle) * rope.magnitude;
    const double x = head.at(first);
    const double y = head.at(second);
    head[first] = x * cosine - y * sine;
    head[second] = x * sine + y * cosine;
  }
}

}  // namespace soli::reference
