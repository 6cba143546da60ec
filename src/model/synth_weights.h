#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_team.h"
#include "kernels/kernel_table.h"

namespace soli {

/// How the elements of a matrix are drawn: about normal, with this mean over every piece of a row (exactly,
/// but for the rounding of the weight type) and this standard deviation.
struct WeightDistribution {
  double mean = 0;
  double deviation = 1;

  bool operator==(const WeightDistribution&) const = default;
};

/// Elements of a row that are drawn, centred and quantised together: whole blocks of any weight type whose
/// blocks divide the row.
int64_t piece_elements_of(int64_t cols);

/// Draws one row of `cols` floats, which depends on `seed` alone. `cols` need not be whole pieces.
void draw_row(const WeightDistribution& distribution, uint64_t seed, int64_t cols, float* row);

/// Quantised pieces of rows, a million elements of them. A row that is put together from pieces chosen at
/// random costs a copy, where quantising it would cost a search.
class WeightPool {
 public:
  /// Fills the pool on the team. `cols` is the length of the rows that are wanted.
  WeightPool(const kernels::WeightKernels& type, int64_t cols, const WeightDistribution& distribution,
             uint64_t seed, ThreadTeam& team);

  bool serves(const kernels::WeightKernels& type, int64_t cols,
              const WeightDistribution& distribution) const {
    return &type == type_ && piece_elements_of(cols) == piece_elements_ && distribution == distribution_;
  }
  /// Writes one row of `cols` elements, which depends on the pool and `seed` alone. Any thread may call.
  void compose_row(uint64_t seed, int64_t cols, std::byte* row) const;

 private:
  const kernels::WeightKernels* type_;
  WeightDistribution distribution_;
  int64_t piece_elements_;
  int64_t piece_bytes_;
  int64_t n_pieces_;
  std::vector<std::byte> pieces_;  // [n_pieces][piece_bytes]
};

}  // namespace soli
