#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/matrix.h"
#include "ops/context.h"
#include "ops/matmul.h"

namespace soli {

/// Whether a multiplication with this matrix takes 8-bit activations.
bool takes_q8(const OpContext& context, const PackedMatrix& matrix);

/// The input rows of a phase, as floats and, where a matrix of the phase takes them, quantised to 8 bits once
/// for all matrices. The 8-bit form lives in the context's scratch: one Activations at a time.
class Activations {
 public:
  /// `x` is borrowed, [rows][cols]. Quantises in parallel if want_q8.
  Activations(OpContext& context, MatrixView<const float> x, bool want_q8);

  const float* f32(int64_t row) const { return x_.row(row); }
  kernels::Q8Row q8(int64_t row) const;
  /// False where a row could not be quantised, since it holds a value that is not finite.
  bool is_finite(int64_t row) const { return is_finite_ == nullptr || is_finite_[row]; }

 private:
  MatrixView<const float> x_;
  int8_t* values_ = nullptr;   // [rows][cols]
  float* scales_ = nullptr;    // [rows][cols / 32]
  int32_t* sums_ = nullptr;    // [rows][cols / 32]
  bool* is_finite_ = nullptr;  // [rows]
};

/// Rows named one by one (the rows of an expert), or a run of consecutive ones.
struct RowList {
  const int32_t* ids = nullptr;  // [n], or null: first, first + 1, ...
  int64_t first = 0;
  int64_t n = 0;

  int64_t operator[](int64_t i) const { return ids == nullptr ? first + i : ids[i]; }
};

/// Rows of one kernel call at most: their outputs and activations stay in the caches of one core.
inline constexpr int64_t kTileRows = 64;

/// y[i][r] = sum over k of W[first_strip * 16 + r][k] * x[rows[i]][k], for the matrix rows r of n_strips
/// strips. At most kTileRows rows. y[i] points to room for those matrix rows. A row that is not finite in 8
/// bits gives NaN.
void multiply_strips(const OpContext& context, const PackedMatrix& matrix, int64_t first_strip,
                     int64_t n_strips, const Activations& x, const RowList& rows, float* const* y);

/// Matrix rows that `n_strips` strips from `first_strip` on have, padding excluded.
inline int64_t rows_of_strips(const PackedMatrix& matrix, int64_t first_strip, int64_t n_strips) {
  return std::min(n_strips * kernels::kStripRows, matrix.rows - first_strip * kernels::kStripRows);
}

}  // namespace soli
