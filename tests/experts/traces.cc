#include "experts/traces.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/rng.h"

namespace soli {
namespace {

/// Draws distinct experts by weight: the k largest of log(weight) + Gumbel noise.
class Drawer {
 public:
  Drawer(const TraceShape& shape, double skew)
      : shape_(shape), rng_(shape.seed), log_weights_(static_cast<size_t>(shape.n_experts)) {
    for (size_t rank = 0; rank < log_weights_.size(); ++rank)
      log_weights_[rank] = -skew * std::log(static_cast<double>(rank + 1));
  }

  Rng& rng() { return rng_; }

  /// A random order of a layer's experts: rank of each.
  std::vector<int32_t> ranks() {
    std::vector<int32_t> out(static_cast<size_t>(shape_.n_experts));
    std::iota(out.begin(), out.end(), 0);
    for (size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[rng_.next_below(i)]);
    return out;
  }
  std::vector<std::vector<int32_t>> ranks_of_layers() {
    std::vector<std::vector<int32_t>> out;
    for (int64_t l = 0; l < shape_.n_layers; ++l) out.push_back(ranks());
    return out;
  }

  /// A visit of as many rows.
  void record(AccessTrace& trace, int64_t layer, const std::vector<int32_t>& ranks, int64_t n_tokens = 1) {
    calls_of_.assign(ranks.size(), 0);
    for (int64_t row = 0; row < n_tokens; ++row) draw(ranks);
    experts_.clear();
    calls_.clear();
    for (size_t e = 0; e < calls_of_.size(); ++e) {
      if (calls_of_[e] == 0) continue;
      experts_.push_back(static_cast<int32_t>(e));
      calls_.push_back(calls_of_[e]);
    }
    trace.record({.layer = layer, .n_tokens = n_tokens, .experts = experts_, .calls = calls_});
  }

 private:
  void draw(const std::vector<int32_t>& ranks) {
    keys_.clear();
    for (size_t e = 0; e < ranks.size(); ++e) {
      const double gumbel = -std::log(-std::log(rng_.next_unit() + 0x1p-60));
      keys_.emplace_back(log_weights_[static_cast<size_t>(ranks[e])] + gumbel, e);
    }
    const auto k = static_cast<std::ptrdiff_t>(shape_.experts_per_token);
    std::partial_sort(keys_.begin(), keys_.begin() + k, keys_.end(), std::greater<>());
    for (std::ptrdiff_t i = 0; i < k; ++i) ++calls_of_[keys_[static_cast<size_t>(i)].second];
  }

  TraceShape shape_;
  Rng rng_;
  std::vector<double> log_weights_;
  std::vector<std::pair<double, size_t>> keys_;
  std::vector<int32_t> calls_of_;  // [experts of a layer]
  std::vector<int32_t> experts_, calls_;
};

}  // namespace

AccessTrace uniform_trace(const TraceShape& shape) { return zipf_trace(shape, 0); }

AccessTrace zipf_trace(const TraceShape& shape, double skew) { return drifting_trace(shape, skew, 0); }

AccessTrace drifting_trace(const TraceShape& shape, double skew, double swaps_per_token) {
  Drawer drawer(shape, skew);
  AccessTrace trace(shape.n_layers, shape.n_experts);
  std::vector<std::vector<int32_t>> ranks = drawer.ranks_of_layers();
  for (int64_t token = 0; token < shape.n_tokens; ++token) {
    for (int64_t l = 0; l < shape.n_layers; ++l) {
      std::vector<int32_t>& of_layer = ranks[static_cast<size_t>(l)];
      if (drawer.rng().next_unit() < swaps_per_token) {
        const size_t a = drawer.rng().next_below(of_layer.size());
        const size_t b = drawer.rng().next_below(of_layer.size());
        std::swap(of_layer[a], of_layer[b]);
      }
      drawer.record(trace, l, of_layer);
    }
  }
  return trace;
}

AccessTrace topic_trace(const TraceShape& shape, double skew, int64_t n_topics, int64_t tokens_per_topic) {
  Drawer drawer(shape, skew);
  AccessTrace trace(shape.n_layers, shape.n_experts);
  std::vector<std::vector<std::vector<int32_t>>> topics;
  for (int64_t topic = 0; topic < n_topics; ++topic) topics.push_back(drawer.ranks_of_layers());
  size_t topic = 0;
  for (int64_t token = 0; token < shape.n_tokens; ++token) {
    if (token % tokens_per_topic == 0) topic = drawer.rng().next_below(topics.size());
    for (int64_t l = 0; l < shape.n_layers; ++l)
      drawer.record(trace, l, topics[topic][static_cast<size_t>(l)]);
  }
  return trace;
}

AccessTrace chat_trace(const TraceShape& shape, double skew, int64_t n_topics, int64_t prompt_tokens,
                       int64_t answer_tokens) {
  Drawer drawer(shape, skew);
  AccessTrace trace(shape.n_layers, shape.n_experts);
  std::vector<std::vector<std::vector<int32_t>>> topics;
  for (int64_t topic = 0; topic < n_topics; ++topic) topics.push_back(drawer.ranks_of_layers());
  for (int64_t token = 0; token < shape.n_tokens; token += prompt_tokens + answer_tokens) {
    const auto& topic = topics[drawer.rng().next_below(topics.size())];
    for (int64_t step = 0; step <= answer_tokens; ++step) {
      for (int64_t l = 0; l < shape.n_layers; ++l)
        drawer.record(trace, l, topic[static_cast<size_t>(l)], step == 0 ? prompt_tokens : 1);
    }
  }
  return trace;
}

}  // namespace soli
