#pragma once

#include <cstdint>
#include <span>

#include "base/matrix.h"
#include "ops/context.h"

namespace soli {

/// An RMS norm (Zhang, Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * weight + bias.
struct RmsNorm {
  std::span<const float> weight;  // [n]
  std::span<const float> bias;    // [n], or empty: none
  float epsilon = 0;

  /// Of one row x [n]. y may be x.
  void apply(const kernels::KernelTable& kernels, const float* x, float* y) const;
};

/// y[r] = norm(x[r]), for every row.
void rms_norm(OpContext& context, MatrixView<const float> x, const RmsNorm& norm, MatrixView<float> y);

/// x += scale * y, row by row.
void add_scaled(OpContext& context, MatrixView<float> x, float scale, MatrixView<const float> y);

/// x *= factor, row by row; nothing is done for 1.
void scale_rows(OpContext& context, float factor, MatrixView<float> x);

/// x += scale * y, then normed = norm(x), row by row: what lies between two sub-layers.
void add_and_norm(OpContext& context, MatrixView<float> x, float scale, MatrixView<const float> y,
                  const RmsNorm& norm, MatrixView<float> normed);

/// The non-linearity between gate, up and down; formulas at the kernels of the same names.
enum class Activation { kSwiGlu, kSwiGluClamped };

/// The activation of n pairs of gate and up. out may be gate.
void activate(const OpContext& context, Activation activation, const float* gate, const float* up, int64_t n,
              float* out);

/// The same, row by row. out may be gate.
void activate_rows(OpContext& context, Activation activation, MatrixView<const float> gate,
                   MatrixView<const float> up, MatrixView<float> out);

}  // namespace soli
