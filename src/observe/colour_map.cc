#include "observe/colour_map.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace soli {
namespace {

constexpr uint32_t kViridis[] = {0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e,
                                 0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b, 0xfde725};
constexpr uint32_t kBlueRed[] = {0x053061, 0x2166ac, 0x4393c3, 0x92c5de, 0xd1e5f0, 0xf7f7f7,
                                 0xfddbc7, 0xf4a582, 0xd6604d, 0xb2182b, 0x67001f};

uint8_t part_between(uint32_t low, uint32_t high, int shift, double share) {
  const double a = low >> shift & 0xFF;
  const double b = high >> shift & 0xFF;
  return static_cast<uint8_t>(std::lround(a + (b - a) * share));
}

/// Straight lines between colours at equal distances.
ColourMap map_through(std::span<const uint32_t> knots) {
  ColourMap map;
  for (size_t i = 0; i < map.size(); ++i) {
    const double at = static_cast<double>(i * (knots.size() - 1)) / static_cast<double>(map.size() - 1);
    const size_t knot = std::min(static_cast<size_t>(at), knots.size() - 2);
    const double share = at - static_cast<double>(knot);
    map[i] = {part_between(knots[knot], knots[knot + 1], 16, share),
              part_between(knots[knot], knots[knot + 1], 8, share),
              part_between(knots[knot], knots[knot + 1], 0, share)};
  }
  return map;
}

}  // namespace

const ColourMap& one_sided_colours() {
  static const ColourMap map = map_through(kViridis);
  return map;
}

const ColourMap& two_sided_colours() {
  static const ColourMap map = map_through(kBlueRed);
  return map;
}

uint8_t one_sided_colour(double share) {
  return static_cast<uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * (kColours - 1)));
}

uint8_t two_sided_colour(double share) { return one_sided_colour((share + 1) / 2); }

}  // namespace soli
