#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/matrix.h"
#include "ops/context.h"
#include "ops/matmul.h"

namespace soli {

using kernels::ActivationForm;

/// The form in which activations enter a multiplication with this matrix.
inline ActivationForm form_of(const OpContext& context, const PackedMatrix& matrix) {
  return context.activations == ActivationPrecision::kF32 ? ActivationForm::kF32 : matrix.type->partner;
}

/// Which forms the matrices of a phase take.
class FormSet {
 public:
  void insert(ActivationForm form) { has_[static_cast<size_t>(form)] = true; }
  void insert(const FormSet& others) {
    for (size_t form = 0; form < has_.size(); ++form) has_[form] = has_[form] || others.has_[form];
  }
  bool contains(ActivationForm form) const { return has_[static_cast<size_t>(form)]; }
  bool operator==(const FormSet&) const = default;

 private:
  std::array<bool, kernels::kActivationForms> has_ = {};
};

/// Rows named one by one (the rows of an expert), or a run of consecutive ones.
struct RowList {
  const int32_t* ids = nullptr;  // [n], or null: first, first + 1, ...
  int64_t first = 0;
  int64_t n = 0;

  int64_t operator[](int64_t i) const { return ids == nullptr ? first + i : ids[i]; }
};

/// The input rows of a phase, as floats and, once for all matrices, in the other forms that they take.
class Activations {
 public:
  /// `x` is borrowed, [rows][cols]. Converts all of it in parallel, into the context's scratch: one of these
  /// at a time.
  Activations(OpContext& context, MatrixView<const float> x, const FormSet& forms)
      : Activations(context, context.scratch, x, forms, {.n = x.rows}) {}
  /// Converts only the named rows, into `memory`, where they stay until it is used again.
  Activations(OpContext& context, Scratch& memory, MatrixView<const float> x, const FormSet& forms,
              const RowList& rows);

  /// Row `row`, a converted one, in a form of the set, or in kF32.
  const void* row(ActivationForm form, int64_t row) const {
    if (form == ActivationForm::kF32) return x_.row(row);
    const Converted& converted = converted_[static_cast<size_t>(form)];
    return converted.data + row * converted.row_stride;
  }
  /// False where a row could not be quantised, since it holds a value that is not finite.
  bool is_finite(int64_t row) const { return is_finite_[row]; }

 private:
  struct Converted {
    std::byte* data = nullptr;
    int64_t row_stride = 0;  // bytes
  };
  void convert_row(const kernels::KernelTable& kernels, int64_t row);
  std::byte* converted_row(ActivationForm form, int64_t row) const;

  MatrixView<const float> x_;
  std::array<Converted, kernels::kActivationForms> converted_;
  bool* is_finite_ = nullptr;  // [rows]
};

/// Rows of one kernel call at most: their activations stay in the caches of one core while the weights go by.
inline constexpr int64_t kTileRows = 96;

/// Cuts n rows into as few tiles as kTileRows allows, of about equal size.
class RowTiles {
 public:
  explicit RowTiles(int64_t n_rows) : n_rows_(n_rows), n_tiles_((n_rows + kTileRows - 1) / kTileRows) {}
  int64_t size() const { return n_tiles_; }
  int64_t begin(int64_t tile) const { return n_rows_ * tile / n_tiles_; }
  int64_t end(int64_t tile) const { return begin(tile + 1); }

 private:
  int64_t n_rows_;
  int64_t n_tiles_;
};

/// y[i][r] = sum over k of W[first_strip * 16 + r][k] * x[rows[i]][k], for the matrix rows r of n_strips
/// strips. At most kTileRows rows. y[i] points to room for those matrix rows. A row that is not finite in 8
/// bits gives NaN. `next`, if any, are the weights that the caller will read afterwards.
void multiply_strips(const OpContext& context, const PackedMatrix& matrix, int64_t first_strip,
                     int64_t n_strips, const Activations& x, const RowList& rows, float* const* y,
                     const std::byte* next = nullptr);

/// Matrix rows that `n_strips` strips from `first_strip` on have, padding excluded.
inline int64_t rows_of_strips(const PackedMatrix& matrix, int64_t first_strip, int64_t n_strips) {
  return std::min(n_strips * kernels::kStripRows, matrix.rows - first_strip * kernels::kStripRows);
}

/// Strips that a thread takes at a time at least, and which kernels take side by side at most.
inline constexpr int64_t kStripsPerRange = 4;

}  // namespace soli
