#include "ops/elementwise.h"

namespace soli {
namespace {

/// Calls body(row) for every row, in ranges of some thousand elements.
template <typename Body>
void for_rows(OpContext& context, int64_t rows, int64_t cols, Body body) {
  context.team.parallel_for(rows, rows_per_range(cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) body(r);
  });
}

template <typename A, typename B>
void check_same_shape(const MatrixView<A>& a, const MatrixView<B>& b) {
  SOLI_CHECK(a.rows == b.rows && a.cols == b.cols, "{} x {} against {} x {}", a.rows, a.cols, b.rows, b.cols);
}

void check_norm(const RmsNorm& norm, int64_t cols) {
  SOLI_CHECK(static_cast<int64_t>(norm.weight.size()) == cols, "norm of {} for {}", norm.weight.size(), cols);
  SOLI_CHECK(norm.bias.empty() || norm.bias.size() == norm.weight.size(), "bias of {}", norm.bias.size());
}

void add_row(const kernels::KernelTable& kernels, float scale, const float* y, int64_t n, float* x) {
  if (scale == 1.0F) {
    kernels.add(x, y, n, x);
  } else {
    kernels.add_scaled(y, scale, n, x);
  }
}

}  // namespace

void RmsNorm::apply(const kernels::KernelTable& kernels, const float* x, float* y) const {
  const auto n = static_cast<int64_t>(weight.size());
  kernels.rms_norm(x, weight.data(), n, epsilon, y);
  if (!bias.empty()) kernels.add(y, bias.data(), n, y);
}

void rms_norm(OpContext& context, MatrixView<const float> x, const RmsNorm& norm, MatrixView<float> y) {
  check_same_shape(x, y);
  check_norm(norm, x.cols);
  for_rows(context, x.rows, x.cols, [&](int64_t r) { norm.apply(context.kernels, x.row(r), y.row(r)); });
}

void add_scaled(OpContext& context, MatrixView<float> x, float scale, MatrixView<const float> y) {
  check_same_shape(x, y);
  for_rows(context, x.rows, x.cols,
           [&](int64_t r) { add_row(context.kernels, scale, y.row(r), x.cols, x.row(r)); });
}

void scale_rows(OpContext& context, float factor, MatrixView<float> x) {
  if (factor == 1.0F) return;
  for_rows(context, x.rows, x.cols, [&](int64_t r) {
    for (int64_t i = 0; i < x.cols; ++i) x.row(r)[i] *= factor;
  });
}

void add_and_norm(OpContext& context, MatrixView<float> x, float scale, MatrixView<const float> y,
                  const RmsNorm& norm, MatrixView<float> normed) {
  check_same_shape(x, y);
  check_same_shape(x, normed);
  check_norm(norm, x.cols);
  for_rows(context, x.rows, x.cols, [&](int64_t r) {
    add_row(context.kernels, scale, y.row(r), x.cols, x.row(r));
    norm.apply(context.kernels, x.row(r), normed.row(r));
  });
}

void activate(const OpContext& context, Activation activation, const float* gate, const float* up, int64_t n,
              float* out) {
  switch (activation) {
    case Activation::kSwiGlu:
      context.kernels.swiglu(gate, up, n, out);
      return;
    case Activation::kSwiGluClamped:
      context.kernels.swiglu_clamped(gate, up, n, out);
      return;
  }
}

void activate_rows(OpContext& context, Activation activation, MatrixView<const float> gate,
                   MatrixView<const float> up, MatrixView<float> out) {
  check_same_shape(gate, up);
  check_same_shape(gate, out);
  for_rows(context, gate.rows, gate.cols,
           [&](int64_t r) { activate(context, activation, gate.row(r), up.row(r), gate.cols, out.row(r)); });
}

}  // namespace soli
