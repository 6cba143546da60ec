#include "train/losses.h"

#include <vector>

#include "base/check.h"

namespace soli {

double balance_loss(MatrixView<const float> probabilities, std::span<const int32_t> ids) {
  SOLI_CHECK(probabilities.rows > 0 && !ids.empty());
  std::vector<double> calls(static_cast<size_t>(probabilities.cols), 0);
  for (const int32_t id : ids) {
    SOLI_CHECK(id >= 0 && id < probabilities.cols, "expert {} of {}", id, probabilities.cols);
    calls[static_cast<size_t>(id)] += 1;
  }
  double sum = 0;
  for (int64_t e = 0; e < probabilities.cols; ++e) {
    double mean = 0;
    for (int64_t t = 0; t < probabilities.rows; ++t) mean += static_cast<double>(probabilities.row(t)[e]);
    mean /= static_cast<double>(probabilities.rows);
    sum += calls[static_cast<size_t>(e)] / static_cast<double>(ids.size()) * mean;
  }
  return static_cast<double>(probabilities.cols) * sum;
}

}  // namespace soli
