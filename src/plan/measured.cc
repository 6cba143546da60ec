#include "plan/measured.h"

#include <algorithm>

#include "base/check.h"

namespace soli {

Measured summary_of(std::vector<double> figures) {
  SOLI_CHECK(!figures.empty());
  std::sort(figures.begin(), figures.end());
  return {figures.front(), figures[figures.size() / 2], figures.back(), static_cast<int>(figures.size())};
}

}  // namespace soli
