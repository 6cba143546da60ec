#include "observe/png.h"

#include <png.h>

#include "base/base64.h"
#include "base/check.h"

namespace soli {
namespace {

std::string png_of(size_t width, std::span<const uint8_t> pixels, std::span<const Colour> palette) {
  std::string colours;
  for (const Colour& colour : palette) {
    for (const uint8_t part : {colour.red, colour.green, colour.blue}) colours += static_cast<char>(part);
  }
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(pixels.size() / width);
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t n_bytes = out.size();
  const int is_written = png_image_write_to_memory(&image, out.data(), &n_bytes, 0, pixels.data(),
                                                   static_cast<png_int_32>(width), colours.data());
  SOLI_CHECK(is_written != 0, "libpng: {}", image.message);
  out.resize(n_bytes);
  return out;
}

}  // namespace

std::string png_address(int64_t width, std::span<const uint8_t> pixels, std::span<const Colour> palette) {
  SOLI_CHECK(width > 0 && !pixels.empty() && pixels.size() % static_cast<size_t>(width) == 0);
  SOLI_CHECK(!palette.empty() && palette.size() <= 256);
  const std::string png = png_of(static_cast<size_t>(width), pixels, palette);
  std::string address = "data:image/png;base64,";
  Base64Encoder encoder;
  encoder.append(std::as_bytes(std::span(png)), address);
  encoder.finish(address);
  return address;
}

}  // namespace soli
