#include "observe/activation_recorder.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"

namespace soli {
namespace {

/// Puts `value` at place `index` of a ring, which grows until it holds `capacity` elements.
template <typename T>
void put(std::vector<T>& ring, int64_t capacity, int64_t index, const T& value) {
  const auto place = static_cast<size_t>(index % capacity);
  if (place < ring.size()) {
    ring[place] = value;
  } else {
    ring.push_back(value);
  }
}

std::tuple<int64_t, int32_t> place_of(const RecordedRoute& route) { return {route.position, route.layer}; }

}  // namespace

double gate_entropy_bits(std::span<const float> scores) {
  // H(s / S) = log2 S - (sum s log2 s) / S.
  double sum = 0;
  double weighted = 0;
  for (const float score : scores) {
    if (!(score > 0)) continue;
    sum += static_cast<double>(score);
    weighted += static_cast<double>(score * std::log2(score));
  }
  const double entropy = std::log2(sum) - weighted / sum;
  return std::isfinite(entropy) ? std::max(0.0, entropy) : 0;
}

ActivationRecorder::ActivationRecorder(int64_t capacity) : capacity_(capacity) {
  SOLI_CHECK(capacity > 0, "capacity {}", capacity);
}

void ActivationRecorder::on_route(const RouterView& view, const Choice& choice) {
  for (int64_t row = 0; row < choice.n_rows(); ++row) {
    const std::span<const int32_t> ids = choice.ids_of(row);
    if (ids.empty()) continue;
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
  if (n_calls > capacity_) {
    ++n_dropped_;
    return;
  }
  while (n_routes() == capacity_ || end_call_ - begin_call_ + n_calls > capacity_) drop_oldest();
  RecordedRoute stored = route;
  stored.n_calls = static_cast<int32_t>(n_calls);
  stored.first_call = end_call_;
  put(routes_, capacity_, end_route_++, stored);
  for (size_t i = 0; i < ids.size(); ++i) put(calls_, capacity_, end_call_++, {ids[i], weights[i]});
}

void ActivationRecorder::drop_oldest() {
  begin_call_ += routes_[static_cast<size_t>(begin_route_ % capacity_)].n_calls;
  ++begin_route_;
  ++n_dropped_;
}

RequestChoices ActivationRecorder::choices_of(RequestId request) const {
  RequestChoices result;
  result.n_dropped = n_dropped_;
  for (int64_t n = begin_route_; n < end_route_; ++n) {
    const RecordedRoute& route = routes_[static_cast<size_t>(n % capacity_)];
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
    for (int64_t c = from; c < from + route.n_calls; ++c)
      result.calls.push_back(calls_[static_cast<size_t>(c % capacity_)]);
  }
  return result;
}

void ActivationRecorder::clear() {
  begin_route_ = end_route_ = begin_call_ = end_call_ = 0;
  n_dropped_ = 0;
}

}  // namespace soli
