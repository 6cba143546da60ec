#include "plan/paired_ratio.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/rng.h"

namespace soli {
namespace {

constexpr size_t kResamples = 10'000;
constexpr double kOutside = 0.025;  // on either side
constexpr uint64_t kSeed = 1;

}  // namespace

PairedRatio paired_ratio(std::span<const TimedPair> pairs) {
  SOLI_CHECK(pairs.size() >= 2, "{} pairs", pairs.size());
  std::vector<double> logs;
  for (const TimedPair& pair : pairs) logs.push_back(std::log(pair.with_s / pair.without_s));
  const auto n = static_cast<double>(logs.size());
  std::vector<double> means(kResamples);
  Rng rng(kSeed);
  for (double& mean : means) {
    for (size_t i = 0; i < logs.size(); ++i) mean += logs[rng.next_below(logs.size())];
    mean /= n;
  }
  std::sort(means.begin(), means.end());
  const auto outside = static_cast<size_t>(kOutside * kResamples);
  return {.ratio = std::exp(std::accumulate(logs.begin(), logs.end(), 0.0) / n),
          .low = std::exp(means[outside]),
          .high = std::exp(means[kResamples - 1 - outside]),
          .n_pairs = static_cast<int64_t>(pairs.size())};
}

}  // namespace soli
