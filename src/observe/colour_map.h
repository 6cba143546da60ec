#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace soli {

struct Colour {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;
};

/// Colours that grow evenly brighter, and that people who see few colours tell apart too.
inline constexpr size_t kColours = 255;
using ColourMap = std::array<Colour, kColours>;

/// From 0 to the largest value: viridis (S. van der Walt, N. Smith, 2015), dark blue to yellow.
const ColourMap& one_sided_colours();
/// From the smallest to the largest, 0 in the middle: RdBu (C. Brewer), blue below and red above.
const ColourMap& two_sided_colours();

/// The colour's number of a share of the range: 0 to 1, or of two sides -1 to 1. What lies beyond has the
/// last one.
uint8_t one_sided_colour(double share);
uint8_t two_sided_colour(double share);

}  // namespace soli
