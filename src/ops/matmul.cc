#include "ops/matmul.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "ops/activations.h"

namespace soli {
namespace {

using kernels::kStripRows;

/// The part of one map that one kernel call computes.
struct LinearPart {
  RowList tokens;
  int64_t first_strip;
  int64_t n_strips;
};

void compute_part(const OpContext& context, const Linear& map, const LinearPart& part, const Activations& x,
                  MatrixView<float> y) {
  const int64_t first_row = part.first_strip * kStripRows;
  const int64_t n_rows = rows_of_strips(map.weight, part.first_strip, part.n_strips);
  std::array<float*, kTileRows> outputs;
  for (int64_t t = 0; t < part.tokens.n; ++t)
    outputs[static_cast<size_t>(t)] = y.row(part.tokens[t]) + first_row;
  multiply_strips(context, map.weight, part.first_strip, part.n_strips, x, part.tokens, outputs.data());
  if (map.bias.empty()) return;
  const float* bias = map.bias.data() + first_row;
  for (int64_t t = 0; t < part.tokens.n; ++t) {
    float* out = outputs[static_cast<size_t>(t)];
    context.kernels.add(out, bias, n_rows, out);
  }
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
class LinearPhase {
 public:
  LinearPhase(std::span<const Linear* const> maps, int64_t n_tokens) : maps_(maps), token_tiles_(n_tokens) {
    for (const Linear* map : maps) n_items_ += map->weight.n_strips() * token_tiles_.size();
  }

  int64_t n_items() const { return n_items_; }

  /// Calls compute(map index, part) for the items [begin, end).
  template <typename Compute>
  void run(int64_t begin, int64_t end, Compute compute) const {
    int64_t map_begin = 0;  // the map's first item
    for (size_t m = 0; m < maps_.size(); ++m) {
      const int64_t n_strips = maps_[m]->weight.n_strips();
      const int64_t map_items = n_strips * token_tiles_.size();
      const int64_t map_end = std::min(end - map_begin, map_items);
      for (int64_t item = std::max<int64_t>(begin - map_begin, 0); item < map_end;) {
        const int64_t token_tile = item / n_strips;
        const int64_t first_token = token_tiles_.begin(token_tile);
        const int64_t strip = item % n_strips;
        const int64_t n = std::min(n_strips - strip, map_end - item);
        compute(
            m, LinearPart{{.first = first_token, .n = token_tiles_.end(token_tile) - first_token}, strip, n});
        item += n;
      }
      map_begin += map_items;
    }
  }

 private:
  std::span<const Linear* const> maps_;
  RowTiles token_tiles_;
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
  FormSet forms;
  for (size_t m = 0; m < linears.size(); ++m) {
    check_shapes(*linears[m], x, outputs[m]);
    forms.insert(form_of(context, linears[m]->weight));
  }
  if (x.rows == 0) return;
  const Activations activations(context, x, forms);
  const LinearPhase phase(linears, x.rows);
  context.team.parallel_for_shrinking(phase.n_items(), kStripsPerRange, [&](int64_t begin, int64_t end, int) {
    phase.run(begin, end, [&](size_t m, const LinearPart& part) {
      compute_part(context, *linears[m], part, activations, outputs[m]);
    });
  });
}

namespace {

/// linear_per_head() of some tokens.
void some_per_head(OpContext& context, std::span<const Linear> heads, const FormSet& forms,
                   MatrixView<const float> x, MatrixView<float> y) {
  const auto n_heads = static_cast<int64_t>(heads.size());
  const int64_t n_tokens = x.rows / n_heads;
  auto* const rows_of_heads = context.work_list.take<int32_t>(x.rows);  // [heads][tokens]
  for (int64_t i = 0; i < x.rows; ++i)
    rows_of_heads[i] = static_cast<int32_t>(i % n_tokens * n_heads + i / n_tokens);
  const Activations activations(context, x, forms);
  const RowTiles tiles(n_tokens);
  const int64_t n_strips = heads[0].weight.n_strips();
  context.team.parallel_for_shrinking(
      n_heads * tiles.size() * n_strips, kStripsPerRange, [&](int64_t begin, int64_t end, int) {
        while (begin < end) {
          const int64_t head = begin / (tiles.size() * n_strips);
          const int64_t tile = begin / n_strips % tiles.size();
          const int64_t strip = begin % n_strips;
          const int64_t n = std::min(n_strips - strip, end - begin);
          const RowList rows = {.ids = rows_of_heads + head * n_tokens + tiles.begin(tile),
                                .n = tiles.end(tile) - tiles.begin(tile)};
          compute_part(context, heads[static_cast<size_t>(head)], {rows, strip, n}, activations, y);
          begin += n;
        }
      });
}

}  // namespace

void linear_per_head(OpContext& context, std::span<const Linear> heads, MatrixView<const float> x,
                     MatrixView<float> y) {
  const auto n_heads = static_cast<int64_t>(heads.size());
  SOLI_CHECK(n_heads > 0 && x.rows % n_heads == 0, "{} rows for {} heads", x.rows, n_heads);
  FormSet forms;
  for (const Linear& head : heads) {
    check_shapes(head, x, y);
    SOLI_CHECK(head.weight.rows == heads[0].weight.rows);
    forms.insert(form_of(context, head.weight));
  }
  // So that the converted rows of all heads stay small beside the activations themselves.
  constexpr int64_t kMostRows = 32 * 1024;
  const int64_t most = std::max<int64_t>(1, kMostRows / n_heads) * n_heads;
  for (int64_t row = 0; row < x.rows; row += most) {
    const int64_t n = std::min(most, x.rows - row);
    some_per_head(context, heads, forms, x.row_range(row, n), y.row_range(row, n));
  }
}

void dequantize_row(const PackedMatrix& matrix, int64_t row, std::span<float> out) {
  SOLI_CHECK(row >= 0 && row < matrix.rows, "row {} of {}", row, matrix.rows);
  SOLI_CHECK(static_cast<int64_t>(out.size()) == matrix.cols, "room for {} of {}", out.size(), matrix.cols);
  const auto lane = static_cast<int>(row % kStripRows);
  matrix.type->dequantize_lane(matrix.strip(row / kStripRows), lane, matrix.cols, out.data());
}

}  // namespace soli
