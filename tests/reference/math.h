#pragma once

// The arithmetic of the reference: textbook loops over double.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/check.h"
#include "reference/tensor_file.h"

namespace soli::reference {

/// W x.
inline Vector multiply(const Matrix& w, const Vector& x) {
  SOLI_CHECK(static_cast<size_t>(w.cols) == x.size(), "{} columns, {} elements", w.cols, x.size());
  Vector y(static_cast<size_t>(w.rows), 0.0);
  for (int64_t row = 0; row < w.rows; ++row) {
    for (int64_t col = 0; col < w.cols; ++col)
      y[static_cast<size_t>(row)] += w.at(row, col) * x[static_cast<size_t>(col)];
  }
  return y;
}

/// W^T x.
inline Vector multiply_transposed(const Matrix& w, const Vector& x) {
  SOLI_CHECK(static_cast<size_t>(w.rows) == x.size(), "{} rows, {} elements", w.rows, x.size());
  Vector y(static_cast<size_t>(w.cols), 0.0);
  for (int64_t row = 0; row < w.rows; ++row) {
    for (int64_t col = 0; col < w.cols; ++col)
      y[static_cast<size_t>(col)] += w.at(row, col) * x[static_cast<size_t>(row)];
  }
  return y;
}

/// x += factor * y; an empty y (a bias that is not there) adds nothing.
inline void add_to(Vector& x, const Vector& y, double factor = 1) {
  SOLI_CHECK(y.empty() || x.size() == y.size(), "{} and {} elements", x.size(), y.size());
  for (size_t i = 0; i < y.size(); ++i) x[i] += factor * y[i];
}

inline double dot(const Vector& x, const Vector& y) {
  SOLI_CHECK(x.size() == y.size(), "{} and {} elements", x.size(), y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

/// x / rms(x) * weight + bias.
inline Vector rms_norm(const Vector& x, double epsilon, const Vector& weight, const Vector& bias = {}) {
  SOLI_CHECK(x.size() == weight.size(), "{} and {} elements", x.size(), weight.size());
  const double rms = std::sqrt(dot(x, x) / static_cast<double>(x.size()) + epsilon);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] / rms * weight[i];
  add_to(y, bias);
  return y;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline Vector softmax(const Vector& x) {
  const double highest = *std::max_element(x.begin(), x.end());
  Vector y(x.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += y[i] = std::exp(x[i] - highest);
  for (double& value : y) value /= sum;
  return y;
}

/// Elements [begin, begin + n).
inline Vector part(const Vector& x, int64_t begin, int64_t n) {
  return {x.begin() + begin, x.begin() + begin + n};
}

}  // namespace soli::reference
