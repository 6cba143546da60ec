#include "ops/attention_inputs.h"

#include <algorithm>

#include "base/check.h"
#include "ops/kv_page.h"

namespace soli {
namespace {

/// Rows that one thread takes at a time: the keys of neighbours in a sequence lie in the same cache lines.
int64_t rows_of_range(std::span<const AttentionRow> rows, int n_threads) {
  constexpr int64_t kMost = 8;
  const bool neighbours = rows.size() > 1 && rows[0].pages.data() == rows[1].pages.data();
  return neighbours ? kMost : std::clamp<int64_t>(static_cast<int64_t>(rows.size()) / n_threads, 1, kMost);
}

void normalise(const kernels::KernelTable& kernels, std::span<const float> norm, float epsilon,
               std::span<float> x) {
  for (size_t i = 0; !norm.empty() && i < x.size(); i += norm.size()) {
    kernels.rms_norm(x.data() + i, norm.data(), static_cast<int64_t>(norm.size()), epsilon, x.data() + i);
  }
}

void normalise_and_rotate(const kernels::KernelTable& kernels, const QueryKeyTransform& transform,
                          std::span<const float> norm, int64_t row, std::span<float> x) {
  if (!transform.norm_after_rope) normalise(kernels, norm, transform.epsilon, x);
  rotate_heads(transform.rope, transform.rotations.row(row), x, x.data());
  if (transform.norm_after_rope) normalise(kernels, norm, transform.epsilon, x);
}

void check_shapes(const AttentionParams& params, const QueryKeyTransform& transform, int64_t n_rows,
                  MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v) {
  const KvShape& shape = params.shape;
  SOLI_CHECK(q.rows == n_rows && q.cols == params.n_heads * shape.head_dim, "queries {} x {}", q.rows,
             q.cols);
  SOLI_CHECK(k.rows == n_rows && k.cols == shape.n_kv_heads * shape.head_dim, "keys {} x {}", k.rows, k.cols);
  SOLI_CHECK(v.rows == n_rows && v.cols == shape.n_kv_heads * shape.value_dim, "values {} x {}", v.rows,
             v.cols);
  SOLI_CHECK(transform.rotations.rows == n_rows && transform.rope.head_dim == shape.head_dim);
  SOLI_CHECK(transform.rotations.cols == rotation_floats(transform.rope), "rotations of {}",
             transform.rotations.cols);
  for (const auto& [norm, cols] : {std::pair{transform.q_norm, q.cols}, {transform.k_norm, k.cols}}) {
    SOLI_CHECK(norm.empty() || cols % static_cast<int64_t>(norm.size()) == 0, "norm of {} for {}",
               norm.size(), cols);
  }
}

}  // namespace

void transform_and_store(OpContext& context, const AttentionParams& params,
                         const QueryKeyTransform& transform, std::span<const AttentionRow> rows,
                         MatrixView<float> q, MatrixView<float> k, MatrixView<const float> v) {
  const KvShape& shape = params.shape;
  const auto n_rows = static_cast<int64_t>(rows.size());
  check_rows(params, rows);
  check_shapes(params, transform, n_rows, q, k, v);
  context.team.parallel_for(
      n_rows, rows_of_range(rows, context.team.size()), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          normalise_and_rotate(context.kernels, transform, transform.q_norm, row,
                               {q.row(row), static_cast<size_t>(q.cols)});
          normalise_and_rotate(context.kernels, transform, transform.k_norm, row,
                               {k.row(row), static_cast<size_t>(k.cols)});
        }
        for (int64_t head = 0; head < shape.n_kv_heads; ++head) {
          for (int64_t row = begin; row < end; ++row) {
            store_head(context.kernels, params, rows[static_cast<size_t>(row)], head,
                       k.row(row) + head * shape.head_dim, v.row(row) + head * shape.value_dim);
          }
        }
      });
}

}  // namespace soli
