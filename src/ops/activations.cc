#include "ops/activations.h"

#include <array>
#include <limits>

#include "base/check.h"

namespace soli {

using kernels::kQ8BlockElements;
using kernels::Q8Row;

bool takes_q8(const OpContext& context, const PackedMatrix& matrix) {
  return context.activations == ActivationPrecision::kQ8 && matrix.type->matmul_q8 != nullptr &&
         matrix.cols % kQ8BlockElements == 0;
}

Activations::Activations(OpContext& context, MatrixView<const float> x, bool want_q8) : x_(x) {
  if (!want_q8) return;
  const int64_t n_blocks = x.cols / kQ8BlockElements;
  const int64_t row_bytes = x.cols + n_blocks * static_cast<int64_t>(sizeof(float) + sizeof(int32_t)) + 1;
  auto* memory = context.scratch.take<std::byte>(x.rows * row_bytes);
  scales_ = reinterpret_cast<float*>(memory);
  sums_ = reinterpret_cast<int32_t*>(scales_ + x.rows * n_blocks);
  values_ = reinterpret_cast<int8_t*>(sums_ + x.rows * n_blocks);
  is_finite_ = reinterpret_cast<bool*>(values_ + x.rows * x.cols);
  context.team.parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      is_finite_[row] = context.kernels.quantize_q8(x.row(row), x.cols, values_ + row * x.cols,
                                                    scales_ + row * n_blocks, sums_ + row * n_blocks);
    }
  });
}

Q8Row Activations::q8(int64_t row) const {
  const int64_t n_blocks = x_.cols / kQ8BlockElements;
  return {values_ + row * x_.cols, scales_ + row * n_blocks, sums_ + row * n_blocks};
}

void multiply_strips(const OpContext& context, const PackedMatrix& matrix, int64_t first_strip,
                     int64_t n_strips, const Activations& x, const RowList& rows, float* const* y) {
  SOLI_CHECK(rows.n <= kTileRows);
  const int64_t n_rows = rows_of_strips(matrix, first_strip, n_strips);
  const auto tile = [&]<typename Activation>(const Activation* inputs) -> kernels::MatmulTile<Activation> {
    return {.strips = matrix.strip(first_strip),
            .n_rows = n_rows,
            .cols = matrix.cols,
            .x = inputs,
            .n_tokens = rows.n,
            .y = y};
  };
  if (!takes_q8(context, matrix)) {
    std::array<const float*, kTileRows> inputs;
    for (int64_t i = 0; i < rows.n; ++i) inputs[static_cast<size_t>(i)] = x.f32(rows[i]);
    matrix.type->matmul_f32(tile(inputs.data()));
    return;
  }
  std::array<Q8Row, kTileRows> inputs;
  for (int64_t i = 0; i < rows.n; ++i) inputs[static_cast<size_t>(i)] = x.q8(rows[i]);
  matrix.type->matmul_q8(tile(inputs.data()));
  for (int64_t i = 0; i < rows.n; ++i) {
    if (!x.is_finite(rows[i])) std::fill_n(y[i], n_rows, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace soli
