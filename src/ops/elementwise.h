#pragma once

#include <cstdint>
#include <span>

#include "base/matrix.h"
#include "ops/context.h"

namespace soli {

/// y[r] = rms_norm(x[r]) * weight, for every row; weight is [cols].
void rms_norm(OpContext& context, MatrixView<const float> x, std::span<const float> weight, float eps,
              MatrixView<float> y);

/// out = a + b, row by row. out may be a.
void add(OpContext& context, MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out);

/// x += y, then normed = rms_norm(x) * weight, row by row: what lies between two sub-layers.
void add_and_norm(OpContext& context, MatrixView<float> x, MatrixView<const float> y,
                  std::span<const float> weight, float eps, MatrixView<float> normed);

/// The non-linearity between gate, up and down; formulas at the kernels of the same names.
enum class Activation { kSwiGlu, kSwiGluClamped };

/// The activation of n pairs of gate and up. out may be gate.
void activate(const OpContext& context, Activation activation, const float* gate, const float* up, int64_t n,
              float* out);

/// The same, row by row. out may be gate.
void activate_rows(OpContext& context, Activation activation, MatrixView<const float> gate,
                   MatrixView<const float> up, MatrixView<float> out);

}  // namespace soli
