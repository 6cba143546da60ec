#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "reference/tensor_file.h"

namespace soli::reference {

/// |ours - expected| / |expected| over all rows together.
inline double relative_distance(const std::vector<std::vector<float>>& ours,
                                const std::vector<Vector>& expected) {
  SOLI_CHECK(ours.size() == expected.size(), "{} and {} rows", ours.size(), expected.size());
  double squares = 0;
  double total = 0;
  for (size_t r = 0; r < ours.size(); ++r) {
    SOLI_CHECK(ours[r].size() == expected[r].size(), "{} and {} columns", ours[r].size(), expected[r].size());
    for (size_t i = 0; i < ours[r].size(); ++i) {
      const double difference = static_cast<double>(ours[r][i]) - expected[r][i];
      squares += difference * difference;
      total += expected[r][i] * expected[r][i];
    }
  }
  return std::sqrt(squares / total);
}

inline std::vector<std::vector<float>> rows_of(const std::vector<float>& values, size_t n_rows) {
  const size_t cols = values.size() / n_rows;
  std::vector<std::vector<float>> rows;
  for (size_t r = 0; r < n_rows; ++r)
    rows.emplace_back(values.begin() + static_cast<long>(r * cols),
                      values.begin() + static_cast<long>((r + 1) * cols));
  return rows;
}

}  // namespace soli::reference
