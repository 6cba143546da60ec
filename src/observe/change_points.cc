#include "observe/change_points.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/rng.h"

namespace soli {
namespace {

// Sums of the same terms in another order differ by less.
constexpr double kCutRounding = 1e-9;

/// A cut of some tokens, and its information: sum over calls, in bits.
struct BestCut {
  int64_t at = 0;  // among the tokens
  double bits = 0;
};

/// Tries all cuts of a segment, in any order of its tokens.
class CutSearch {
 public:
  explicit CutSearch(const RoutedText& text) : text_(text) {
    int64_t most_calls = 0;
    for (int64_t layer = 0; layer < text.n_layers; ++layer)
      most_calls = std::max(most_calls, count_calls(layer, 0, text.n_tokens()));
    for (int64_t n = 0; n <= most_calls; ++n) {
      const auto x = static_cast<double>(n);
      x_log_x_.push_back(n > 0 ? x * std::log2(x) : 0);
    }
  }

  /// With n_s,e calls of expert e on side s, N times the information is sum f(n_s,e) - sum f(n_s) - sum
  /// f(n_e)
  /// + f(N), f(x) = x log2 x, of which the last two terms are the same for all cuts.
  BestCut best(std::span<const int64_t> order) {
    const auto n = static_cast<int64_t>(order.size());
    bits_.assign(static_cast<size_t>(n) + 1, 0);
    for (int64_t layer = 0; layer < text_.n_layers; ++layer) add_layer(order, layer);
    BestCut cut;
    for (int64_t at = kMinChangeTokens; at <= n - kMinChangeTokens; ++at) {
      if (bits_[static_cast<size_t>(at)] > cut.bits + kCutRounding)
        cut = {at, bits_[static_cast<size_t>(at)]};
    }
    return cut;
  }

  int64_t count_all_calls(int64_t begin, int64_t end) const {
    int64_t n = 0;
    for (int64_t layer = 0; layer < text_.n_layers; ++layer) n += count_calls(layer, begin, end);
    return n;
  }

 private:
  int64_t count_calls(int64_t layer, int64_t begin, int64_t end) const {
    int64_t n = 0;
    for (int64_t token = begin; token < end; ++token) n += std::ssize(text_.experts_of(token, layer));
    return n;
  }

  /// Adds the information of each cut to bits_: tokens go from the right side to the left one by one.
  void add_layer(std::span<const int64_t> order, int64_t layer) {
    left_.assign(static_cast<size_t>(text_.n_experts), 0);
    right_.assign(static_cast<size_t>(text_.n_experts), 0);
    int64_t n_right = 0;
    for (const int64_t token : order) {
      for (const int32_t expert : text_.experts_of(token, layer)) {
        ++right_[static_cast<size_t>(expert)];
        ++n_right;
      }
    }
    int64_t n_left = 0;
    double gain = 0;
    const auto f = [&](int64_t x) { return x_log_x_[static_cast<size_t>(x)]; };
    const double f_of_all = f(n_right);
    for (size_t i = 0; i < order.size(); ++i) {
      for (const int32_t expert : text_.experts_of(order[i], layer)) {
        int64_t& left = left_[static_cast<size_t>(expert)];
        int64_t& right = right_[static_cast<size_t>(expert)];
        gain += f(left + 1) - f(left) + f(right - 1) - f(right);
        ++left;
        --right;
        ++n_left;
        --n_right;
      }
      bits_[i + 1] += gain + f_of_all - f(n_left) - f(n_right);
    }
  }

  const RoutedText& text_;
  std::vector<double> x_log_x_;
  std::vector<double> bits_;    // [cuts]
  std::vector<int64_t> left_;   // [n_experts] calls
  std::vector<int64_t> right_;  // the same
};

/// One segment: its cut, and what permutations say of it.
ChangePoint test_segment(CutSearch& search, int64_t begin, int64_t end, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(end - begin));
  std::iota(order.begin(), order.end(), begin);
  const BestCut observed = search.best(order);
  const auto n_calls = static_cast<double>(std::max<int64_t>(1, search.count_all_calls(begin, end)));
  Rng rng(hash_u64(seed ^ hash_u64(static_cast<uint64_t>(begin) << 32 ^ static_cast<uint64_t>(end))));
  int64_t n_as_large = 1;
  double sum = 0;
  for (int64_t i = 0; i < kChangePermutations; ++i) {
    for (size_t last = order.size() - 1; last > 0; --last)
      std::swap(order[last], order[rng.next_below(last + 1)]);
    const double permuted = search.best(order).bits;
    sum += permuted;
    if (permuted >= observed.bits - kCutRounding) ++n_as_large;
  }
  return {.at = begin + observed.at,
          .divergence_bits = observed.bits / n_calls,
          .permuted_bits = sum / static_cast<double>(kChangePermutations) / n_calls,
          .p = static_cast<double>(n_as_large) / static_cast<double>(kChangePermutations + 1)};
}

}  // namespace

std::span<const int32_t> RoutedText::experts_of(int64_t token, int64_t layer) const {
  const auto place = static_cast<size_t>(token * n_layers + layer);
  return std::span(experts).subspan(static_cast<size_t>(begin[place]),
                                    static_cast<size_t>(begin[place + 1] - begin[place]));
}

RoutedText routed_text(const TokenDiagnosis& diagnosis, int64_t n_experts, int64_t first) {
  RoutedText text;
  text.n_experts = n_experts;
  text.begin.push_back(0);
  std::vector<bool> has_experts(static_cast<size_t>(diagnosis.n_layers), false);
  for (const UsedFfn& ffn : diagnosis.used) {
    if (ffn.kind == FfnKind::kRouted) has_experts[static_cast<size_t>(ffn.layer)] = true;
  }
  text.n_layers = std::count(has_experts.begin(), has_experts.end(), true);
  for (int64_t position = first; position < diagnosis.n_tokens(); ++position) {
    for (int64_t layer = 0; layer < diagnosis.n_layers; ++layer) {
      if (!has_experts[static_cast<size_t>(layer)]) continue;
      for (const FfnCall& call : diagnosis.calls_of(diagnosis.path(position, layer))) {
        if (call.kind == FfnKind::kRouted) text.experts.push_back(call.expert);
      }
      text.begin.push_back(static_cast<int64_t>(text.experts.size()));
    }
  }
  return text;
}

std::vector<ChangePoint> find_change_points(const RoutedText& text, uint64_t seed) {
  std::vector<ChangePoint> found;
  CutSearch search(text);
  std::vector<std::pair<int64_t, int64_t>> segments = {{0, text.n_tokens()}};
  while (!segments.empty()) {
    const auto [begin, end] = segments.back();
    segments.pop_back();
    if (end - begin < 2 * kMinChangeTokens) continue;
    const ChangePoint change = test_segment(search, begin, end, seed);
    if (change.p > kChangeSignificance) continue;
    found.push_back(change);
    segments.emplace_back(begin, change.at);
    segments.emplace_back(change.at, end);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  return found;
}

}  // namespace soli
