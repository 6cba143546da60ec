#include "ops/attention.h"

#include <algorithm>
#include <array>

#include "base/round_up.h"
#include "ops/kv_page.h"

namespace soli {
namespace {

using kernels::AttentionTile;
using kernels::kAttentionTileQueries;

/// Multiply-adds below which a range is not worth another thread.
constexpr int64_t kMultipliesPerRange = 200'000;
/// Items that a batch is cut into at least, if it can be, so that threads end together.
constexpr int64_t kItemsPerThread = 2;
/// A cache line: what threads write lies in different ones.
constexpr int64_t kLineFloats = 16;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One tile of work: neighbouring rows of one sequence with neighbouring heads of the groups of neighbouring
/// kv heads.
struct Item {
  int64_t row;
  int64_t n_rows;
  int64_t kv_head;
  int64_t n_kv_heads;
  int64_t head;  // within each group
  int64_t n_heads;
};

/// Attention of one batch.
class Attention {
 public:
  Attention(OpContext& context, const AttentionParams& params, std::span<const AttentionRow> rows,
            MatrixView<const float> q, MatrixView<float> out)
      : context_(context),
        params_(params),
        rows_(rows),
        q_(q),
        out_(out),
        group_(params.n_heads / params.shape.n_kv_heads) {
    n_heads_max_ = std::min(group_, kAttentionTileQueries);
    int64_t n_tiles = 0;
    for_each_tile([&](int64_t, int64_t) { ++n_tiles; });
    const int64_t n_threads = context.team.size();
    n_kv_heads_max_ = std::max<int64_t>(1, params.shape.n_kv_heads * n_tiles / (kItemsPerThread * n_threads));
    const int64_t head_parts = ceil_div(n_threads, n_tiles * params.shape.n_kv_heads);
    n_heads_max_ = std::min(n_heads_max_, ceil_div(group_, std::min(group_, head_parts)));
  }

  void run() {
    int64_t n_items = 0;
    for_each_item([&](const Item&) { ++n_items; });
    const int64_t n_floats = round_up(
        kernels::attention_workspace_floats(params_.shape.head_dim, params_.shape.value_dim), kLineFloats);
    const int64_t n_item_floats =
        round_up(n_items * int64_t{sizeof(Item)} / int64_t{sizeof(float)}, kLineFloats);
    auto* workspaces = context_.scratch.take<float>(context_.team.size() * n_floats + n_item_floats);
    auto* items = reinterpret_cast<Item*>(workspaces + context_.team.size() * n_floats);
    // The last rows of a sequence have the most keys: they come first, so that no thread ends with them.
    Item* last = items + n_items;
    for_each_item([&](const Item& item) { *--last = item; });
    context_.team.parallel_for(n_items, grain(n_items), [&](int64_t begin, int64_t end, int member) {
      for (int64_t i = begin; i < end; ++i) attend(items[i], workspaces + member * n_floats);
    });
  }

 private:
  /// Calls visit(row, n_rows) for runs of rows of one sequence that fit a tile.
  template <typename Visit>
  void for_each_tile(Visit visit) const {
    const int64_t n_rows_max = kAttentionTileQueries / n_heads_max_;
    int64_t row = 0;
    while (row < q_.rows) {
      const int64_t first = row;
      const auto* pages = rows_[static_cast<size_t>(first)].pages.data();
      const int64_t end = std::min(q_.rows, first + n_rows_max);
      while (row < end && rows_[static_cast<size_t>(row)].pages.data() == pages) ++row;
      visit(first, row - first);
    }
  }

  template <typename Visit>
  void for_each_item(Visit visit) const {
    const int64_t n_kv_heads = params_.shape.n_kv_heads;
    for_each_tile([&](int64_t row, int64_t n_rows) {
      const int64_t room = kAttentionTileQueries / (n_rows * n_heads_max_);
      const int64_t n_together = std::clamp<int64_t>(room, 1, n_kv_heads_max_);
      for (int64_t kv_head = 0; kv_head < n_kv_heads; kv_head += n_together) {
        for (int64_t head = 0; head < group_; head += n_heads_max_) {
          visit(Item{row, n_rows, kv_head, std::min(n_together, n_kv_heads - kv_head), head,
                     std::min(n_heads_max_, group_ - head)});
        }
      }
    });
  }

  int64_t grain(int64_t n_items) const {
    int64_t n_keys = 0;
    for (const AttentionRow& row : rows_) n_keys += row.position + 1 - params_.first_key(row.position);
    const int64_t multiplies = n_keys * params_.n_heads * (params_.shape.head_dim + params_.shape.value_dim);
    return std::clamp<int64_t>(kMultipliesPerRange * n_items / multiplies, 1, n_items);
  }

  void attend(const Item& item, float* workspace) const {
    const KvShape& shape = params_.shape;
    std::array<const float*, kAttentionTileQueries> q;
    std::array<float*, kAttentionTileQueries> out;
    std::array<int64_t, kAttentionTileQueries> first_keys;
    std::array<int64_t, kAttentionTileQueries> n_keys;
    std::array<float, kAttentionTileQueries> sinks;
    size_t n = 0;
    for (int64_t kv_head = item.kv_head; kv_head < item.kv_head + item.n_kv_heads; ++kv_head) {
      const int64_t first_head = kv_head * group_ + item.head;
      for (int64_t row = item.row; row < item.row + item.n_rows; ++row) {
        for (int64_t head = first_head; head < first_head + item.n_heads; ++head, ++n) {
          q[n] = q_.row(row) + head * shape.head_dim;
          out[n] = out_.row(row) + head * shape.value_dim;
          const int64_t position = rows_[static_cast<size_t>(row)].position;
          first_keys[n] = params_.first_key(position);
          n_keys[n] = position + 1;
          if (!params_.sinks.empty()) sinks[n] = params_.sinks[static_cast<size_t>(head)];
        }
      }
    }
    const AttentionTile tile = {.q = q.data(),
                                .out = out.data(),
                                .first_keys = first_keys.data(),
                                .n_keys = n_keys.data(),
                                .sinks = params_.sinks.empty() ? nullptr : sinks.data(),
                                .n_queries = static_cast<int64_t>(n),
                                .n_kv_heads = item.n_kv_heads,
                                .pages = rows_[static_cast<size_t>(item.row)].pages.data(),
                                .k_offset = key_offset(params_, item.kv_head),
                                .v_offset = value_offset(params_, item.kv_head),
                                .head_dim = shape.head_dim,
                                .value_dim = shape.value_dim,
                                .scale = params_.scale,
                                .workspace = workspace};
    if (shape.type == KvType::kF16) {
      context_.kernels.attention_f16(tile);
    } else {
      context_.kernels.attention_f32(tile);
    }
  }

  OpContext& context_;
  const AttentionParams& params_;
  const std::span<const AttentionRow> rows_;
  const MatrixView<const float> q_;
  const MatrixView<float> out_;
  const int64_t group_;         // heads that share a kv head
  int64_t n_heads_max_ = 0;     // of a group in one item
  int64_t n_kv_heads_max_ = 0;  // in one item
};

}  // namespace

void attention(OpContext& context, const AttentionParams& params, std::span<const AttentionRow> rows,
               MatrixView<const float> q, MatrixView<float> out) {
  const KvShape& shape = params.shape;
  const auto n_rows = static_cast<int64_t>(rows.size());
  check_rows(params, rows);
  SOLI_CHECK(params.n_heads > 0 && params.n_heads % shape.n_kv_heads == 0, "{} heads over {}", params.n_heads,
             shape.n_kv_heads);
  SOLI_CHECK(q.rows == n_rows && q.cols == params.n_heads * shape.head_dim, "queries {} x {}", q.rows,
             q.cols);
  SOLI_CHECK(out.rows == n_rows && out.cols == params.n_heads * shape.value_dim, "output {} x {}", out.rows,
             out.cols);
  SOLI_CHECK(params.window >= 0 &&
             (params.sinks.empty() || static_cast<int64_t>(params.sinks.size()) == params.n_heads));
  if (n_rows > 0) Attention(context, params, rows, q, out).run();
}

}  // namespace soli
