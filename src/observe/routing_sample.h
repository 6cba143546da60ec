#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace soli {

/// Experts of consecutive tokens of one text, in every layer: what is drawn again in bootstraps and
/// permutations.
struct SampledRun {
  struct Layer {
    std::vector<int32_t> k;    // [tokens]
    std::vector<int32_t> ids;  // of the tokens one after the other, each ascending
  };

  uint64_t key = 0;           // a hash of which tokens these are
  std::vector<Layer> layers;  // [MoE layers]

  int64_t n_tokens() const { return layers.empty() ? 0 : static_cast<int64_t>(layers.front().k.size()); }
};

/// The runs with the smallest keys: a uniform sample of all runs that were ever offered, in whatever order
/// and in however many parts (a bottom-k sketch: Cohen, Kaplan 2007). At most kMaxRuns.
class RoutingSample {
 public:
  static constexpr int64_t kRunTokens = 32;
  static constexpr size_t kMaxRuns = 64;

  /// A run whose key is there already is the same run.
  void add(SampledRun run);
  void merge(const RoutingSample& other);
  /// In ascending order of key.
  std::span<const SampledRun> runs() const { return runs_; }

 private:
  std::vector<SampledRun> runs_;
};

}  // namespace soli
