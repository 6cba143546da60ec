#include "ops/matmul.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace soli {
namespace {

using kernels::kQ8BlockElements;
using kernels::kStripRows;
using kernels::Q8Row;

/// Tokens of one kernel call: their 16 outputs per strip and their activations stay in the caches of one
/// core.
constexpr int64_t kTokensPerTile = 64;
/// Ranges that a thread should find, so that the last one to finish does not keep the others waiting long.
constexpr int64_t kRangesPerThread = 8;

/// Activation rows quantised to 8 bit. `is_finite[t]` is false where row t could not be.
struct Q8Matrix {
  int64_t cols = 0;
  int8_t* values = nullptr;
  float* scales = nullptr;
  int32_t* sums = nullptr;
  bool* is_finite = nullptr;

  Q8Row row(int64_t t) const {
    const int64_t n_blocks = cols / kQ8BlockElements;
    return {values + t * cols, scales + t * n_blocks, sums + t * n_blocks};
  }
};

/// Quantises all rows in parallel; the result lives in the context's scratch memory.
Q8Matrix quantize_rows(OpContext& context, MatrixView<const float> x) {
  const int64_t n_blocks = x.cols / kQ8BlockElements;
  const int64_t per_row = x.cols + n_blocks * static_cast<int64_t>(sizeof(float) + sizeof(int32_t)) + 1;
  auto* memory = context.scratch.take<std::byte>(x.rows * per_row);
  Q8Matrix q{.cols = x.cols};
  q.scales = reinterpret_cast<float*>(memory);
  q.sums = reinterpret_cast<int32_t*>(q.scales + x.rows * n_blocks);
  q.values = reinterpret_cast<int8_t*>(q.sums + x.rows * n_blocks);
  q.is_finite = reinterpret_cast<bool*>(q.values + x.rows * x.cols);
  context.team.parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const Q8Row row = q.row(t);
      q.is_finite[t] =
          context.kernels.quantize_q8(x.row(t), x.cols, const_cast<int8_t*>(row.values),
                                      const_cast<float*>(row.scales), const_cast<int32_t*>(row.sums));
    }
  });
  return q;
}

/// The part of one map that one kernel call computes.
struct Part {
  int64_t first_token;
  int64_t n_tokens;
  int64_t first_strip;
  int64_t n_strips;

  int64_t first_row() const { return first_strip * kStripRows; }
  int64_t n_rows(const Linear& map) const {
    return std::min(n_strips * kStripRows, map.weight.rows - first_row());
  }
};

template <typename Activation>
kernels::MatmulTile<Activation> make_tile(const Linear& map, const Part& part, const Activation* x,
                                          float* const* y) {
  return {.strips = map.weight.strip(part.first_strip),
          .n_rows = part.n_rows(map),
          .cols = map.weight.cols,
          .x = x,
          .n_tokens = part.n_tokens,
          .y = y};
}

/// Adds the bias, and marks the rows whose input was not finite.
void finish_part(const Linear& map, const Part& part, const Q8Matrix* q, float* const* y) {
  const int64_t n_rows = part.n_rows(map);
  for (int64_t t = 0; t < part.n_tokens; ++t) {
    if (q != nullptr && !q->is_finite[part.first_token + t]) {
      std::fill_n(y[t], n_rows, std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    if (map.bias.empty()) continue;
    const float* bias = map.bias.data() + part.first_row();
    for (int64_t r = 0; r < n_rows; ++r) y[t][r] += bias[r];
  }
}

void compute_part(const Linear& map, const Part& part, MatrixView<const float> x, const Q8Matrix* q,
                  MatrixView<float> y) {
  float* outputs[kTokensPerTile];
  for (int64_t t = 0; t < part.n_tokens; ++t) outputs[t] = y.row(part.first_token + t) + part.first_row();
  if (q != nullptr) {
    Q8Row rows[kTokensPerTile];
    for (int64_t t = 0; t < part.n_tokens; ++t) rows[t] = q->row(part.first_token + t);
    map.weight.type->matmul_q8(make_tile(map, part, rows, outputs));
  } else {
    const float* rows[kTokensPerTile];
    for (int64_t t = 0; t < part.n_tokens; ++t) rows[t] = x.row(part.first_token + t);
    map.weight.type->matmul_f32(make_tile(map, part, rows, outputs));
  }
  finish_part(map, part, q, outputs);
}

bool takes_q8(const OpContext& context, const Linear& map) {
  return context.activations == ActivationPrecision::kQ8 && map.weight.type->matmul_q8 != nullptr &&
         map.weight.cols % kQ8BlockElements == 0;
}

void check_shapes(const Linear& map, MatrixView<const float> x, MatrixView<float> y) {
  SOLI_CHECK(map.weight.type != nullptr && map.weight.data != nullptr, "linear {} has no weights", map.slot);
  SOLI_CHECK(
      map.weight.rows > 0 && map.weight.cols > 0 && map.weight.cols % map.weight.type->block_elements == 0,
      "linear {}: {} x {} of {}", map.slot, map.weight.rows, map.weight.cols, map.weight.type->name);
  SOLI_CHECK(x.cols == map.weight.cols, "linear {}: input of {}, weights of {}", map.slot, x.cols,
             map.weight.cols);
  SOLI_CHECK(y.cols == map.weight.rows && y.rows == x.rows, "linear {}: output {} x {}", map.slot, y.rows,
             y.cols);
  SOLI_CHECK(map.bias.empty() || static_cast<int64_t>(map.bias.size()) == map.weight.rows,
             "linear {}: bias of {}", map.slot, map.bias.size());
}

/// One phase over all (map, token tile, strip): the items of a map are numbered strip by strip within a token
/// tile, so that a range of items is a few runs of consecutive strips.
class Phase {
 public:
  Phase(std::span<const Linear* const> maps, int64_t n_tokens)
      : maps_(maps), n_tokens_(n_tokens), n_token_tiles_((n_tokens + kTokensPerTile - 1) / kTokensPerTile) {
    for (const Linear* map : maps) n_items_ += map->weight.n_strips() * n_token_tiles_;
  }

  int64_t n_items() const { return n_items_; }

  /// Calls compute(map index, part) for the items [begin, end).
  template <typename Compute>
  void run(int64_t begin, int64_t end, Compute compute) const {
    int64_t map_begin = 0;  // the map's first item
    for (size_t m = 0; m < maps_.size(); ++m) {
      const int64_t n_strips = maps_[m]->weight.n_strips();
      const int64_t map_items = n_strips * n_token_tiles_;
      const int64_t map_end = std::min(end - map_begin, map_items);
      for (int64_t item = std::max<int64_t>(begin - map_begin, 0); item < map_end;) {
        const int64_t first_token = item / n_strips * kTokensPerTile;
        const int64_t strip = item % n_strips;
        const int64_t n = std::min(n_strips - strip, map_end - item);
        compute(m, Part{first_token, std::min(kTokensPerTile, n_tokens_ - first_token), strip, n});
        item += n;
      }
      map_begin += map_items;
    }
  }

 private:
  std::span<const Linear* const> maps_;
  int64_t n_tokens_;
  int64_t n_token_tiles_;
  int64_t n_items_ = 0;
};

}  // namespace

void linear(OpContext& context, const Linear& linear, MatrixView<const float> x, MatrixView<float> y) {
  const Linear* map = &linear;
  linear_group(context, {&map, 1}, x, {&y, 1});
}

void linear_group(OpContext& context, std::span<const Linear* const> linears, MatrixView<const float> x,
                  std::span<const MatrixView<float>> outputs) {
  SOLI_CHECK(linears.size() == outputs.size(), "{} maps, {} outputs", linears.size(), outputs.size());
  bool any_q8 = false;
  for (size_t m = 0; m < linears.size(); ++m) {
    check_shapes(*linears[m], x, outputs[m]);
    any_q8 = any_q8 || takes_q8(context, *linears[m]);
  }
  if (x.rows == 0) return;
  const Q8Matrix q = any_q8 ? quantize_rows(context, x) : Q8Matrix{};
  const Phase phase(linears, x.rows);
  const int64_t grain = std::max<int64_t>(1, phase.n_items() / (context.team.size() * kRangesPerThread));
  context.team.parallel_for(phase.n_items(), grain, [&](int64_t begin, int64_t end, int) {
    phase.run(begin, end, [&](size_t m, const Part& part) {
      compute_part(*linears[m], part, x, takes_q8(context, *linears[m]) ? &q : nullptr, outputs[m]);
    });
  });
}

void dequantize_row(const PackedMatrix& matrix, int64_t row, std::span<float> out) {
  SOLI_CHECK(row >= 0 && row < matrix.rows, "row {} of {}", row, matrix.rows);
  SOLI_CHECK(static_cast<int64_t>(out.size()) == matrix.cols, "room for {} of {}", out.size(), matrix.cols);
  const auto lane = static_cast<int>(row % kStripRows);
  matrix.type->dequantize_lane(matrix.strip(row / kStripRows), lane, matrix.cols, out.data());
}

}  // namespace soli
