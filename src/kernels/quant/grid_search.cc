#include "kernels/quant/grid_search.h"

#include <cmath>
#include <initializer_list>
#include <limits>

#include "kernels/quant/rounding.h"

namespace soli::kernels {
namespace {

constexpr int kMaxLevels = 8;
constexpr int kMaxElements = 8;

/// Finds the entry with the least sum of costs, by branch and bound: what an element costs above its cheapest
/// level is never negative, so that a tuple which is too dear already need not be completed.
class NearestEntry {
 public:
  explicit NearestEntry(const Grid& grid) : grid_(grid) {}

  /// `costs` of the levels of each element, [elements][kMaxLevels]. NaN counts as too dear.
  int find(const float (*costs)[kMaxLevels]) {
    int weight = 1;
    for (int j = 0; j < grid_.elements; ++j, weight *= grid_.levels) sort_levels(costs[j], weight, j);
    best_index_ = 0;
    best_ = std::numeric_limits<float>::infinity();
    visit(0, 0, 0.0F);
    return best_index_;
  }

 private:
  struct Level {
    int code;      // what it adds to a code
    float excess;  // cost above that of the cheapest
  };

  void sort_levels(const float* costs, int weight, int j) {
    Level* levels = levels_[j];
    for (int l = 0; l < grid_.levels; ++l) {
      int at = l;
      for (; at > 0 && costs[l] < levels[at - 1].excess; --at) levels[at] = levels[at - 1];
      levels[at] = {l * weight, costs[l]};
    }
    const float least = levels[0].excess;
    for (int l = 0; l < grid_.levels; ++l) levels[l].excess -= least;
  }

  // As deep as there are elements.
  void visit(int j, int code, float excess) {
    if (j == grid_.elements) {
      const int index = grid_.find(code);
      if (index < 0) return;
      best_index_ = index;
      best_ = excess;
      return;
    }
    for (int l = 0; l < grid_.levels; ++l) {
      const Level& level = levels_[j][l];
      if (!(excess + level.excess < best_)) return;
      visit(j + 1, code + level.code, excess + level.excess);
    }
  }

  const Grid& grid_;
  Level levels_[kMaxElements][kMaxLevels];
  int best_index_ = 0;
  float best_ = 0;
};

/// What eight elements, or more, come to with one scale.
struct Sums {
  double xq = 0;
  double qq = 0;

  void add(const Sums& other) {
    xq += other.xq;
    qq += other.qq;
  }
  /// How far the squared error falls below that of all zeros, with the best scale for these numbers.
  double gain() const { return xq > 0 ? xq * xq / qq : 0; }
};

/// Where the indices and signs of eight elements go.
struct Eight {
  uint16_t* indices;  // [2], or [1] of grids of eight
  uint8_t* signs;
};

/// Nearest entries for the eight numbers y, whose numbers are values + shift.
Sums choose(const GridFormat& format, const float* y, float shift, uint16_t* indices) {
  const Grid& grid = *format.grid;
  Sums sums;
  for (int first = 0; first < 8; first += grid.elements) {
    float costs[kMaxElements][kMaxLevels] = {};
    for (int j = 0; j < grid.elements; ++j) {
      for (int l = 0; l < grid.levels; ++l) {
        const float value = static_cast<float>(format.values[l]) + shift;
        costs[j][l] = value * (value - 2 * y[first + j]);
      }
    }
    const int index = NearestEntry(grid).find(costs);
    *indices++ = static_cast<uint16_t>(index);
    for (int j = 0; j < grid.elements; ++j) {
      const float q = static_cast<float>(format.values[grid_number(grid.entries[index], j)]) + shift;
      sums.xq += static_cast<double>(y[first + j]) * static_cast<double>(q);
      sums.qq += static_cast<double>(q * q);
    }
  }
  return sums;
}

/// With signs of their own.
Sums choose_signed(const GridFormat& format, const float* x, float inverse, const Eight& eight) {
  float y[8];
  int signs = 0;
  int weakest = 0;
  for (int j = 0; j < 8; ++j) {
    y[j] = std::fabs(x[j]) * inverse;
    signs |= (x[j] < 0 ? 1 : 0) << j;
    if (y[j] < y[weakest]) weakest = j;
  }
  if (format.signs == GridSigns::kEven && __builtin_parity(static_cast<unsigned>(signs)) != 0) {
    signs ^= 1 << weakest;
    y[weakest] = -y[weakest];
  }
  *eight.signs = static_cast<uint8_t>(signs);
  return choose(format, y, 0, eight.indices);
}

Sums choose_shifted(const GridFormat& format, const float* x, float inverse, int bit, const Eight& eight) {
  float y[8];
  for (int j = 0; j < 8; ++j) y[j] = x[j] * inverse;
  *eight.signs = static_cast<uint8_t>(bit);
  return choose(format, y, bit != 0 ? -1.0F : 1.0F, eight.indices);
}

/// Entries for a part with this scale. Indices and signs go to those of the block.
Sums choose_part(const GridFormat& format, const float* x, int part, float scale, GridBlock* block) {
  const float inverse = scale > 0 ? 1 / scale : 0.0F;
  const int eights = format.part_elements / 8;
  const int per_eight = 8 / format.grid->elements;
  const auto eight_of = [&](int i) {
    return Eight{block->indices + (part * eights + i) * per_eight, block->signs + part * eights + i};
  };
  const float* first = x + part * format.part_elements;
  Sums sums;
  if (format.signs == GridSigns::kAny || format.signs == GridSigns::kEven) {
    for (int i = 0; i < eights; ++i) sums.add(choose_signed(format, first + i * 8, inverse, eight_of(i)));
    return sums;
  }
  // Errors, up to what does not depend on the bit.
  const auto error = [](const Sums& s) { return s.qq - 2 * s.xq; };
  const int together = format.signs == GridSigns::kShiftOfPart ? eights : 1;
  for (int i = 0; i < eights; i += together) {
    const auto with = [&](int bit) {
      Sums s;
      for (int j = i; j < i + together; ++j) {
        s.add(choose_shifted(format, first + j * 8, inverse, bit, eight_of(j)));
      }
      return s;
    };
    const Sums minus = with(1);
    Sums best = with(0);
    if (error(minus) < error(best)) best = with(1);
    sums.add(best);
  }
  return sums;
}

/// The scale of least squared error for a part among some that begin at its spread.
float fit_scale(const GridFormat& format, const float* x, int part, GridBlock* block) {
  double square = 0;
  for (int i = 0; i < format.part_elements; ++i) {
    const double value = x[part * format.part_elements + i];
    square += value * value;
  }
  const double spread = std::sqrt(square / format.part_elements);
  double best_gain = 0;
  float best = 0;
  for (const double width : {0.8, 1.0, 1.25}) {
    const auto scale = static_cast<float>(width * spread / static_cast<double>(format.typical));
    if (!(scale > 0)) continue;
    const Sums sums = choose_part(format, x, part, scale, block);
    const double gain = sums.gain() * static_cast<double>(scale) * static_cast<double>(scale);
    if (!(gain > best_gain)) continue;
    best_gain = gain;
    best = scale * static_cast<float>(sums.xq / sums.qq);
  }
  return best;
}

}  // namespace

void fit_scales(const GridFormat& format, const float* x, float* fits, GridBlock* block) {
  float widest = 0;
  for (int part = 0; part < 256 / format.part_elements; ++part) {
    fits[part] = fit_scale(format, x, part, block);
    widest = fits[part] > widest ? fits[part] : widest;
  }
  block->d = widest / static_cast<float>(2 * format.n_scales - 1);
}

void choose_entries(const GridFormat& format, const float* x, const float* fits, GridBlock* block) {
  for (int part = 0; part < 256 / format.part_elements; ++part) {
    const int scale =
        block->d > 0 ? round_clamped((fits[part] / block->d - 1) / 2, 0, format.n_scales - 1) : 0;
    block->scales[part] = static_cast<uint8_t>(scale);
    choose_part(format, x, part, block->d * static_cast<float>(2 * scale + 1), block);
  }
}

}  // namespace soli::kernels
