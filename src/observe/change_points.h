#pragma once

// Where in a text the routing changes [O8].

#include <cstdint>
#include <span>
#include <vector>

#include "observe/diagnosis_recorder.h"

namespace soli {

/// The experts that consecutive tokens chose, layer by layer.
struct RoutedText {
  int64_t n_layers = 0;          // with experts
  int64_t n_experts = 0;         // of each
  std::vector<int64_t> begin;    // [tokens * layers + 1]
  std::vector<int32_t> experts;  // those of token t in layer l are [begin[t * n_layers + l], ...)

  int64_t n_tokens() const {
    return n_layers == 0 || begin.empty() ? 0 : static_cast<int64_t>(begin.size() - 1) / n_layers;
  }
  std::span<const int32_t> experts_of(int64_t token, int64_t layer) const;
};

/// Of the routed calls of a diagnosis, from the token at `first` on.
RoutedText routed_text(const TokenDiagnosis& diagnosis, int64_t n_experts, int64_t first);

struct ChangePoint {
  int64_t at = 0;              // the token that the new part begins with
  double divergence_bits = 0;  // between what precedes and what follows, within the segment that it cuts
  double permuted_bits = 0;    // the largest that a permutation of that segment gives: mean over permutations
  double p = 1;                // share of permutations that give as much, the observed order counted as one
};

/// A part has so many tokens at least.
inline constexpr int64_t kMinChangeTokens = 8;
/// What is found has p of this at most; there are so many permutations.
inline constexpr double kChangeSignificance = 0.01;
inline constexpr int64_t kChangePermutations = 199;

/// Binary segmentation. A segment, at first the whole text, is cut where the tokens before and after the cut
/// choose most differently: the Jensen-Shannon divergence of their shares of calls, weighted by their numbers
/// of calls (Lin 1991; for cuts in the middle, the usual one), which is the information in bits that a call
/// has of its side of the cut; mean over layers by their calls. That cut maximises the likelihood of two
/// multinomials per layer. It is kept, and both parts are looked at in turn, if the largest divergence of at
/// most kChangeSignificance of kChangePermutations permutations of the segment's tokens is as large. Layers
/// are permuted together. Ascending; the same for the same seed. Time grows with tokens * calls.
std::vector<ChangePoint> find_change_points(const RoutedText& text, uint64_t seed);

}  // namespace soli
