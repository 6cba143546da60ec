#pragma once

#include <cstdint>

#include "base/check.h"

namespace soli {

/// A borrowed row-major matrix [rows][cols]; `stride` elements lie between the starts of two rows.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  MatrixView() = default;
  MatrixView(T* data_in, int64_t rows_in, int64_t cols_in) : MatrixView(data_in, rows_in, cols_in, cols_in) {}
  MatrixView(T* data_in, int64_t rows_in, int64_t cols_in, int64_t stride_in)
      : data(data_in), rows(rows_in), cols(cols_in), stride(stride_in) {}

  T* row(int64_t r) const { return data + r * stride; }
  operator MatrixView<const T>() const { return {data, rows, cols, stride}; }  // NOLINT: T* to const T*

  /// Rows [begin, begin + n_rows).
  MatrixView row_range(int64_t begin, int64_t n_rows) const { return {row(begin), n_rows, cols, stride}; }
};

}  // namespace soli
