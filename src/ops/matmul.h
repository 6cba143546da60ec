#pragma once

#include <cstdint>
#include <span>

#include "base/matrix.h"
#include "ops/context.h"

namespace soli {

/// A weight matrix [rows][cols] (output features, input features) in the x16 layout; borrowed memory.
/// The last strip is padded with zero rows to 16.
struct PackedMatrix {
  const kernels::WeightKernels* type = nullptr;
  const std::byte* data = nullptr;  // [n_strips()][type->strip_bytes(cols)]
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t n_strips() const { return (rows + kernels::kStripRows - 1) / kernels::kStripRows; }
  int64_t strip_bytes() const { return type->strip_bytes(cols); }
  int64_t packed_bytes() const { return n_strips() * strip_bytes(); }
  const std::byte* strip(int64_t s) const { return data + s * strip_bytes(); }
};

/// An affine map of a model: y = W x + bias. `slot` is its number in the model, to which an adapter may
/// refer.
struct Linear {
  PackedMatrix weight;
  std::span<const float> bias;  // [rows], or empty
  int slot = -1;

  explicit operator bool() const { return weight.data != nullptr; }
};

/// y[t] = W x[t] + bias. x is [tokens][cols], y is [tokens][rows]; they must not overlap. Work is split over
/// strips and tokens, never over k: the bits of a row depend on neither its batch nor the number of threads.
/// With 8-bit activations, a row that is not finite gives a row of NaN and leaves the others alone.
void linear(OpContext& context, const Linear& linear, MatrixView<const float> x, MatrixView<float> y);

/// Several maps of the same input (q, k and v; gate and up) in one phase. `outputs[i]` belongs to
/// `linears[i]`.
void linear_group(OpContext& context, std::span<const Linear* const> linears, MatrixView<const float> x,
                  std::span<const MatrixView<float>> outputs);

/// A map of each head's own: y[t * heads + h] = W_h x[t * heads + h] + bias_h. All maps have one shape; x is
/// [tokens * heads][cols] and y [tokens * heads][rows], of any stride, and they must not overlap.
void linear_per_head(OpContext& context, std::span<const Linear> heads, MatrixView<const float> x,
                     MatrixView<float> y);

/// Exact values of row `row` of a packed matrix (an embedding): out is [cols].
void dequantize_row(const PackedMatrix& matrix, int64_t row, std::span<float> out);

}  // namespace soli
