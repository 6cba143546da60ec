#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "observe/colour_map.h"

namespace soli {

/// A picture of `width` times n / width pixels, each a number of `palette` (at most 256 colours), row by row,
/// as a "data:" address that an <image> of SVG or HTML can show. PNG (ISO/IEC 15948).
std::string png_address(int64_t width, std::span<const uint8_t> pixels, std::span<const Colour> palette);

}  // namespace soli
