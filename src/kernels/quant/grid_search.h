#pragma once

// Quantising to grids: scales and entries by search, for the IQ types. Plain code for the oldest machine,
// outside the ISAs' namespaces.

#include <cstdint>

#include "kernels/quant/grids.h"

namespace soli::kernels {

/// What the bits beside the indices do to the numbers of eight elements.
enum class GridSigns : uint8_t {
  kAny,           // a sign bit for each element
  kEven,          // the same, with an even number of minus signs
  kShiftOfEight,  // one bit: 1 is taken off the values, or added to them where it is clear
  kShiftOfPart,   // one such bit for all elements of a part
};

/// A weight is d * scale * value, with the odd scales 1, 3 .. 2 * n_scales - 1 of parts of 16 or 32.
struct GridFormat {
  const Grid* grid;
  const int8_t* values;  // [grid->levels]
  GridSigns signs;
  int part_elements;
  int n_scales;
  float typical;  // root mean square of the values that weights use: where the search for scales begins
};

/// A block of 256.
struct GridBlock {
  float d;               // of the widest part
  uint8_t scales[16];    // s of the scale 2s + 1
  uint16_t indices[64];  // of entries
  uint8_t signs[32];     // of eight elements: a bit each, set for minus, or the shift's bit
};

/// For each part of the 256 numbers at x, the scale of least squared error among some, to fits[part]; and the
/// d that makes the largest of them the largest scale, to block->d, which the caller rounds to its format.
void fit_scales(const GridFormat& format, const float* x, float* fits, GridBlock* block);

/// Scales nearest to the fits for block->d as it is now, and the entries and signs nearest to x.
void choose_entries(const GridFormat& format, const float* x, const float* fits, GridBlock* block);

}  // namespace soli::kernels
