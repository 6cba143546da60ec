#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/spec.h"
#include "ops/attention.h"

namespace soli {

/// What later tokens of a sequence need to know of a token's routing, where its policy looks back: per
/// position and layer with experts, the scores that the choice went by, and which experts were chosen. It
/// lies beside the KV page of the position and goes where the page goes: state is never carried over, it is
/// read where it was left, and so a sequence that is chunked, preempted, or begins with somebody's cached
/// page, or with a part of one, finds the same as one that computes token by token.
///
/// A page: [kKvPagePositions][layers with experts] records of scores [n_experts] floats, and a bit for each
/// expert, in words of 32.
class SteeringLayout {
 public:
  explicit SteeringLayout(const ModelSpec& spec)
      : n_layers_(spec.n_moe_layers()), n_experts_(spec.router.n_experts) {}

  int64_t page_bytes() const { return kKvPagePositions * n_layers_ * record_words() * int64_t{4}; }
  int64_t n_words() const { return (n_experts_ + 31) / 32; }

  /// [n_experts] of a position; `pages` are those of its sequence, `moe_layer` counts layers with experts.
  float* scores(std::span<std::byte* const> pages, int64_t position, int64_t moe_layer) const {
    return reinterpret_cast<float*>(record(pages, position, moe_layer));
  }
  /// [n_words] bit e % 32 of word e / 32 is expert e.
  uint32_t* chosen(std::span<std::byte* const> pages, int64_t position, int64_t moe_layer) const {
    return reinterpret_cast<uint32_t*>(record(pages, position, moe_layer) + n_experts_ * int64_t{4});
  }

 private:
  int64_t record_words() const { return n_experts_ + n_words(); }
  std::byte* record(std::span<std::byte* const> pages, int64_t position, int64_t moe_layer) const {
    return pages[static_cast<size_t>(position / kKvPagePositions)] +
           (position % kKvPagePositions * n_layers_ + moe_layer) * record_words() * int64_t{4};
  }

  int64_t n_layers_;
  int64_t n_experts_;
};

}  // namespace soli
