#pragma once

#include <vector>

namespace soli {

/// Several passes of one measurement. Units are those of the figure.
struct Measured {
  double min = 0;
  double median = 0;  // the upper one of an even number of passes
  double max = 0;
  int passes = 0;
};

/// Of at least one figure.
Measured summary_of(std::vector<double> figures);

}  // namespace soli
