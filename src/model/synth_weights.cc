#include "model/synth_weights.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace soli {
namespace {

constexpr int64_t kPoolElements = int64_t{1} << 20;
constexpr int64_t kMinPieces = 16;

/// Mean 0, variance 1: the sum of 12 uniform numbers (Irwin, Hall), each 16 bits of a random word. Unlike
/// the logarithm and cosine of other methods it gives the same bits with every library.
float next_normal(Rng& rng) {
  int32_t sum = 0;
  for (int word = 0; word < 3; ++word) {
    const uint64_t bits = rng.next_u64();
    for (int shift = 0; shift < 64; shift += 16) sum += static_cast<int32_t>((bits >> shift) & 0xFFFF);
  }
  return static_cast<float>(sum - 6 * 0xFFFF) * 0x1p-16F;
}

}  // namespace

int64_t piece_elements_of(int64_t cols) {
  for (const int64_t elements : {256, 128, 64, 32}) {
    if (cols % elements == 0) return elements;
  }
  return cols;
}

void draw_row(const WeightDistribution& distribution, uint64_t seed, int64_t cols, float* row) {
  Rng rng(seed);
  const int64_t piece = piece_elements_of(cols);
  for (int64_t begin = 0; begin < cols; begin += piece) {
    double sum = 0;
    for (int64_t i = begin; i < begin + piece; ++i) {
      row[i] = next_normal(rng);
      sum += static_cast<double>(row[i]);
    }
    const double centre = sum / static_cast<double>(piece);
    for (int64_t i = begin; i < begin + piece; ++i) {
      const double normal = static_cast<double>(row[i]) - centre;
      row[i] = static_cast<float>(distribution.mean + distribution.deviation * normal);
    }
  }
}

WeightPool::WeightPool(const kernels::WeightKernels& type, int64_t cols,
                       const WeightDistribution& distribution, uint64_t seed, ThreadTeam& team)
    : type_(&type),
      distribution_(distribution),
      piece_elements_(piece_elements_of(cols)),
      piece_bytes_(type.row_bytes(piece_elements_)),
      n_pieces_(std::max(kMinPieces, kPoolElements / piece_elements_)),
      pieces_(static_cast<size_t>(n_pieces_ * piece_bytes_)) {
  std::vector<float> scratch(static_cast<size_t>(team.size() * piece_elements_));
  team.parallel_for(n_pieces_, 16, [&](int64_t begin, int64_t end, int member) {
    float* const piece = scratch.data() + member * piece_elements_;
    for (int64_t i = begin; i < end; ++i) {
      draw_row(distribution_, hash_u64(seed + static_cast<uint64_t>(i)), piece_elements_, piece);
      type_->quantize_row(piece, piece_elements_, pieces_.data() + i * piece_bytes_);
    }
  });
}

void WeightPool::compose_row(uint64_t seed, int64_t cols, std::byte* row) const {
  Rng rng(seed);
  for (int64_t begin = 0; begin < cols; begin += piece_elements_) {
    const auto piece = static_cast<int64_t>(rng.next_below(static_cast<uint64_t>(n_pieces_)));
    std::memcpy(row, pieces_.data() + piece * piece_bytes_, static_cast<size_t>(piece_bytes_));
    row += piece_bytes_;
  }
}

}  // namespace soli
