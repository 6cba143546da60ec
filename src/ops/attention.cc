#include "ops/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace soli {
namespace {

using kernels::AttentionBlock;
using kernels::half;

/// Where one layer's keys and values of one kv head begin in a page.
std::byte* key_block(const AttentionParams& params, std::byte* page, int64_t kv_head) {
  const KvShape& shape = params.shape;
  return page + params.layer_offset + kv_head * kKvPagePositions * shape.head_dim * bytes_of(shape.type);
}

std::byte* value_block(const AttentionParams& params, std::byte* page, int64_t kv_head) {
  const KvShape& shape = params.shape;
  const int64_t keys = shape.n_kv_heads * kKvPagePositions * shape.head_dim;
  return page + params.layer_offset +
         (keys + kv_head * kKvPagePositions * shape.value_dim) * bytes_of(shape.type);
}

void store_numbers(const kernels::KernelTable& kernels, KvType type, const float* x, int64_t n,
                   std::byte* block, int64_t slot) {
  if (type == KvType::kF16) {
    kernels.f32_to_f16(x, n, reinterpret_cast<half*>(block) + slot * n);
  } else {
    std::memcpy(block + slot * n * 4, x, static_cast<size_t>(n) * 4);
  }
}

void check_rows(const AttentionParams& params, std::span<const AttentionRow> rows) {
  const KvShape& shape = params.shape;
  SOLI_CHECK(shape.n_kv_heads > 0 && shape.head_dim > 0 && shape.value_dim > 0);
  for (const AttentionRow& row : rows) {
    SOLI_CHECK(row.position >= 0 && row.position / kKvPagePositions < static_cast<int64_t>(row.pages.size()),
               "position {} with {} pages", row.position, row.pages.size());
  }
}

/// The running softmax of all heads of a row: m and l are [n_heads].
struct Softmax {
  float* m;
  float* l;
};

template <typename Kv>
void attend(const AttentionParams& params, const AttentionRow& row, int64_t kv_head, const float* q,
            Softmax state, float* out, void (*kernel)(const AttentionBlock<Kv>&)) {
  const KvShape& shape = params.shape;
  const int64_t group = params.n_heads / shape.n_kv_heads;
  const int64_t first_head = kv_head * group;
  AttentionBlock<Kv> block{.q = q + first_head * shape.head_dim,
                           .q_stride = shape.head_dim,
                           .k = nullptr,
                           .v = nullptr,
                           .n_keys = 0,
                           .n_heads = static_cast<int>(group),
                           .head_dim = shape.head_dim,
                           .value_dim = shape.value_dim,
                           .scale = params.scale,
                           .m = state.m + first_head,
                           .l = state.l + first_head,
                           .o = out + first_head * shape.value_dim};
  std::fill_n(block.m, group, -std::numeric_limits<float>::infinity());
  std::fill_n(block.l, group, 0.0F);
  std::fill_n(block.o, group * shape.value_dim, 0.0F);
  for (int64_t page = 0; page * kKvPagePositions <= row.position; ++page) {
    std::byte* memory = row.pages[static_cast<size_t>(page)];
    block.k = reinterpret_cast<const Kv*>(key_block(params, memory, kv_head));
    block.v = reinterpret_cast<const Kv*>(value_block(params, memory, kv_head));
    block.n_keys = std::min(kKvPagePositions, row.position + 1 - page * kKvPagePositions);
    kernel(block);
  }
  for (int64_t h = 0; h < group; ++h) {
    for (int64_t d = 0; d < shape.value_dim; ++d) block.o[h * shape.value_dim + d] /= block.l[h];
  }
}

}  // namespace

void store_kv(OpContext& context, const AttentionParams& params, std::span<const AttentionRow> rows,
              MatrixView<const float> k, MatrixView<const float> v) {
  const KvShape& shape = params.shape;
  const auto n_rows = static_cast<int64_t>(rows.size());
  check_rows(params, rows);
  SOLI_CHECK(k.rows == n_rows && k.cols == shape.n_kv_heads * shape.head_dim, "keys {} x {}", k.rows, k.cols);
  SOLI_CHECK(v.rows == n_rows && v.cols == shape.n_kv_heads * shape.value_dim, "values {} x {}", v.rows,
             v.cols);
  context.team.parallel_for(n_rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const AttentionRow& row = rows[static_cast<size_t>(r)];
      std::byte* page = row.pages[static_cast<size_t>(row.position / kKvPagePositions)];
      const int64_t slot = row.position % kKvPagePositions;
      for (int64_t h = 0; h < shape.n_kv_heads; ++h) {
        store_numbers(context.kernels, shape.type, k.row(r) + h * shape.head_dim, shape.head_dim,
                      key_block(params, page, h), slot);
        store_numbers(context.kernels, shape.type, v.row(r) + h * shape.value_dim, shape.value_dim,
                      value_block(params, page, h), slot);
      }
    }
  });
}

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
  auto* state = context.scratch.take<float>(n_rows * params.n_heads * 2);
  context.team.parallel_for(n_rows * shape.n_kv_heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t r = item / shape.n_kv_heads;
      const int64_t kv_head = item % shape.n_kv_heads;
      const AttentionRow& row = rows[static_cast<size_t>(r)];
      const Softmax softmax{state + 2 * r * params.n_heads, state + (2 * r + 1) * params.n_heads};
      if (shape.type == KvType::kF16) {
        attend(params, row, kv_head, q.row(r), softmax, out.row(r), context.kernels.attention_f16);
      } else {
        attend(params, row, kv_head, q.row(r), softmax, out.row(r), context.kernels.attention_f32);
      }
    }
  });
}

}  // namespace soli
