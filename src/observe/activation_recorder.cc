#include "observe/activation_recorder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>

namespace soli {
namespace {

/// log2 of a positive normal number given by its bits, right to some 1e-7: x = 2^e m with m in [sqrt(1/2),
/// sqrt(2)), and four terms of the series of ln m in t = (m - 1) / (m + 1).
inline float log2_of(int32_t bits) {
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  constexpr float kOverLn2 = 2 * std::numbers::log2e_v<float>;
  const int32_t exponent = (bits - kSqrtHalf) >> 23;
  const auto m = std::bit_cast<float>(bits - (exponent << 23));
  const float t = (m - 1) / (m + 1);
  const float t2 = t * t;
  return static_cast<float>(exponent) +
         t * (kOverLn2 + t2 * (kOverLn2 / 3 + t2 * (kOverLn2 / 5 + t2 * (kOverLn2 / 7))));
}

/// Sums for the entropy, over eight scores at a time: no branches and no calls, so that compilers use
/// vectors.
struct ScoreSums {
  static constexpr size_t kLanes = 8;
  std::array<float, kLanes> scores = {};
  std::array<float, kLanes> weighted = {};  // s log2 s

  void add(const float* eight) {
    constexpr int32_t kLeastNormal = 0x00800000;
    constexpr int32_t kInfinity = 0x7f800000;  // NaNs lie above
    constexpr int32_t kOne = 0x3f800000;       // whose logarithm is 0
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const auto bits = std::bit_cast<int32_t>(eight[lane]);
      const int32_t counts =
          -(static_cast<int32_t>(bits >= kLeastNormal) & static_cast<int32_t>(bits <= kInfinity));
      const auto score = std::bit_cast<float>(bits & counts);
      scores[lane] += score;
      weighted[lane] += score * log2_of((bits & counts) | (kOne & ~counts));
    }
  }
};

double total(const std::array<float, ScoreSums::kLanes>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

std::tuple<int64_t, int32_t> place_of(const RecordedRoute& route) { return {route.position, route.layer}; }

}  // namespace

double gate_entropy_bits(std::span<const float> scores) {
  // H(s / S) = log2 S - (sum s log2 s) / S.
  ScoreSums sums;
  size_t i = 0;
  for (; i + ScoreSums::kLanes <= scores.size(); i += ScoreSums::kLanes) sums.add(scores.data() + i);
  if (i < scores.size()) {
    std::array<float, ScoreSums::kLanes> rest = {};
    std::copy(scores.begin() + static_cast<std::ptrdiff_t>(i), scores.end(), rest.begin());
    sums.add(rest.data());
  }
  const double sum = total(sums.scores);
  const double entropy = std::log2(sum) - total(sums.weighted) / sum;
  return std::isfinite(entropy) ? std::max(0.0, entropy) : 0;
}

ActivationRecorder::ActivationRecorder(int64_t capacity) : routes_(capacity), calls_(capacity) {}

void ActivationRecorder::on_route(const RouterView& view, const Choice& choice) {
  for (int64_t row = 0; row < choice.n_rows(); ++row) {
    const std::span<const int32_t> ids = choice.ids_of(row);
    if (ids.empty() && !are_finite({view.logits.row(row), static_cast<size_t>(view.logits.cols)})) continue;
    const std::span scores(view.scores.row(row), static_cast<size_t>(view.scores.cols));
    const BatchRow& from = view.rows[static_cast<size_t>(row)];
    RecordedRoute route;
    route.request = from.request;
    route.position = from.position;
    route.token = from.token;
    route.layer = static_cast<int32_t>(view.layer);
    route.gate_entropy_bits = static_cast<float>(gate_entropy_bits(scores));
    append(route, ids, choice.weights_of(row));
  }
}

void ActivationRecorder::append(const RecordedRoute& route, std::span<const int32_t> ids,
                                std::span<const float> weights) {
  const auto n_calls = static_cast<int64_t>(ids.size());
  if (n_calls > capacity()) {
    ++n_dropped_;
    return;
  }
  while (n_routes() == capacity() || calls_.size() + n_calls > capacity()) drop_oldest();
  RecordedRoute stored = route;
  stored.n_calls = static_cast<int32_t>(n_calls);
  stored.first_call = calls_.end();
  routes_.push(stored);
  for (size_t i = 0; i < ids.size(); ++i) calls_.push({ids[i], weights[i]});
}

void ActivationRecorder::drop_oldest() {
  calls_.pop(routes_[routes_.begin()].n_calls);
  routes_.pop(1);
  ++n_dropped_;
}

RequestChoices ActivationRecorder::choices_of(RequestId request) const {
  RequestChoices result;
  result.n_dropped = n_dropped_;
  for (int64_t n = routes_.begin(); n < routes_.end(); ++n) {
    const RecordedRoute& route = routes_[n];
    if (route.request == request) result.routes.push_back(route);
  }
  std::vector<RecordedRoute>& routes = result.routes;
  std::stable_sort(routes.begin(), routes.end(),
                   [](const auto& a, const auto& b) { return place_of(a) < place_of(b); });
  // Of equal places the last one stays: unique() from the back keeps the first that it meets.
  const auto kept = std::unique(routes.rbegin(), routes.rend(),
                                [](const auto& a, const auto& b) { return place_of(a) == place_of(b); });
  routes.erase(routes.begin(), kept.base());
  for (RecordedRoute& route : routes) {
    const int64_t from = route.first_call;
    route.first_call = static_cast<int64_t>(result.calls.size());
    for (int64_t c = from; c < from + route.n_calls; ++c) result.calls.push_back(calls_[c]);
  }
  return result;
}

void ActivationRecorder::clear() {
  routes_.clear();
  calls_.clear();
  n_dropped_ = 0;
}

}  // namespace soli
