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

}  // namespace

void rms_norm(OpContext& context, MatrixView<const float> x, std::span<const float> weight, float eps,
              MatrixView<float> y) {
  check_same_shape(x, y);
  SOLI_CHECK(static_cast<int64_t>(weight.size()) == x.cols, "weight of {} for {}", weight.size(), x.cols);
  for_rows(context, x.rows, x.cols,
           [&](int64_t r) { context.kernels.rms_norm(x.row(r), weight.data(), x.cols, eps, y.row(r)); });
}

void add(OpContext& context, MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> out) {
  check_same_shape(a, b);
  check_same_shape(a, out);
  for_rows(context, a.rows, a.cols,
           [&](int64_t r) { context.kernels.add(a.row(r), b.row(r), a.cols, out.row(r)); });
}

void add_and_norm(OpContext& context, MatrixView<float> x, MatrixView<const float> y,
                  std::span<const float> weight, float eps, MatrixView<float> normed) {
  check_same_shape(x, y);
  check_same_shape(x, normed);
  SOLI_CHECK(static_cast<int64_t>(weight.size()) == x.cols, "weight of {} for {}", weight.size(), x.cols);
  for_rows(context, x.rows, x.cols, [&](int64_t r) {
    context.kernels.add(x.row(r), y.row(r), x.cols, x.row(r));
    context.kernels.rms_norm(x.row(r), weight.data(), x.cols, eps, normed.row(r));
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
