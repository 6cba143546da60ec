#include "ops/activations.h"

#include <limits>

#include "base/check.h"

namespace soli {
namespace {

constexpr int64_t kLineBytes = 64;

constexpr std::array kConvertedForms = {ActivationForm::kBf16, ActivationForm::kQ8Of32,
                                        ActivationForm::kQ8Of256};

/// An odd number of cache lines: the rows of a tile then spread over all sets of a cache.
int64_t row_stride_of(ActivationForm form, int64_t cols) {
  const int64_t bytes = kernels::activation_row_bytes(form, cols);
  return ((bytes + kLineBytes - 1) / kLineBytes | 1) * kLineBytes;
}

}  // namespace

Activations::Activations(OpContext& context, Scratch& scratch, MatrixView<const float> x,
                         const FormSet& forms, const RowList& rows)
    : x_(x) {
  int64_t bytes = 0;
  for (const ActivationForm form : kConvertedForms) {
    if (!forms.contains(form)) continue;
    converted_[static_cast<size_t>(form)].row_stride = row_stride_of(form, x.cols);
    bytes += x.rows * row_stride_of(form, x.cols);
  }
  auto* memory = scratch.take<std::byte>(bytes + x.rows);
  for (const ActivationForm form : kConvertedForms) {
    if (!forms.contains(form)) continue;
    converted_[static_cast<size_t>(form)].data = memory;
    memory += x.rows * row_stride_of(form, x.cols);
  }
  is_finite_ = reinterpret_cast<bool*>(memory);
  const int64_t grain = bytes == 0 ? rows.n : rows_per_range(x.cols);
  context.team.parallel_for(rows.n, std::max<int64_t>(grain, 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) convert_row(context.kernels, rows[i]);
  });
}

std::byte* Activations::converted_row(ActivationForm form, int64_t row) const {
  const Converted& converted = converted_[static_cast<size_t>(form)];
  return converted.data == nullptr ? nullptr : converted.data + row * converted.row_stride;
}

void Activations::convert_row(const kernels::KernelTable& kernels, int64_t row) {
  const float* x = x_.row(row);
  is_finite_[row] = true;
  if (std::byte* out = converted_row(ActivationForm::kBf16, row))
    kernels.to_bf16(x, x_.cols, reinterpret_cast<uint16_t*>(out));
  if (std::byte* out = converted_row(ActivationForm::kQ8Of32, row))
    is_finite_[row] = kernels.to_q8_of_32(x, x_.cols, reinterpret_cast<kernels::Q8Of32Block*>(out));
  if (std::byte* out = converted_row(ActivationForm::kQ8Of256, row))
    is_finite_[row] = kernels.to_q8_of_256(x, x_.cols, reinterpret_cast<kernels::Q8Of256Block*>(out));
}

void multiply_strips(const OpContext& context, const PackedMatrix& matrix, int64_t first_strip,
                     int64_t n_strips, const Activations& x, const RowList& rows, float* const* y,
                     const std::byte* next) {
  SOLI_CHECK(rows.n <= kTileRows);
  const ActivationForm form = form_of(context, matrix);
  const int64_t n_rows = rows_of_strips(matrix, first_strip, n_strips);
  std::array<const void*, kTileRows> inputs;
  for (int64_t i = 0; i < rows.n; ++i) inputs[static_cast<size_t>(i)] = x.row(form, rows[i]);
  const kernels::MatmulTile tile = {.strips = matrix.strip(first_strip),
                                    .n_rows = n_rows,
                                    .cols = matrix.cols,
                                    .x = inputs.data(),
                                    .n_tokens = rows.n,
                                    .y = y,
                                    .next = next};
  if (form == ActivationForm::kF32) {
    matrix.type->matmul_f32(tile);
    return;
  }
  matrix.type->matmul_partner(tile);
  for (int64_t i = 0; i < rows.n; ++i) {
    if (!x.is_finite(rows[i])) std::fill_n(y[i], n_rows, std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace soli
