#include "observe/png.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/base64.h"
#include "base/check.h"

namespace soli {
namespace {

constexpr size_t kStoredBytes =
    65535;  // the most of a block of DEFLATE that is not compressed (RFC 1951, 3.2.4)

void put_be32(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

void put_le16(std::string& out, uint32_t value) {
  out += static_cast<char>(value & 0xFF);
  out += static_cast<char>(value >> 8 & 0xFF);
}

/// CRC-32 as ISO 3309 has it.
uint32_t crc32_of(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xEDB88320 : crc >> 1;
  }
  return ~crc;
}

/// RFC 1950, 8.2.
uint32_t adler32_of(std::string_view bytes) {
  uint32_t a = 1;
  uint32_t b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

void put_chunk(std::string& out, std::string_view type, std::string_view data) {
  put_be32(out, static_cast<uint32_t>(data.size()));
  const std::string checked = std::string(type) + std::string(data);
  out += checked;
  put_be32(out, crc32_of(checked));
}

/// A stream of zlib whose blocks are stored as they are.
std::string stored(std::string_view bytes) {
  std::string out = "\x78\x01";
  for (size_t at = 0; at < bytes.size(); at += kStoredBytes) {
    const std::string_view block = bytes.substr(at, kStoredBytes);
    out += static_cast<char>(at + block.size() == bytes.size() ? 1 : 0);
    put_le16(out, static_cast<uint32_t>(block.size()));
    put_le16(out, ~static_cast<uint32_t>(block.size()));
    out += block;
  }
  put_be32(out, adler32_of(bytes));
  return out;
}

std::string png_of(size_t width, std::span<const uint8_t> pixels, std::span<const Colour> palette) {
  const size_t height = pixels.size() / width;
  std::string out = "\x89PNG\r\n\x1A\n";
  std::string header;
  put_be32(header, static_cast<uint32_t>(width));
  put_be32(header, static_cast<uint32_t>(height));
  header +=
      std::string_view("\x08\x03\x00\x00\x00", 5);  // 8 bits, palette, deflate, filter by row, not interlaced
  put_chunk(out, "IHDR", header);
  std::string colours;
  for (const Colour& colour : palette) {
    for (const uint8_t part : {colour.red, colour.green, colour.blue}) colours += static_cast<char>(part);
  }
  put_chunk(out, "PLTE", colours);
  std::string rows;
  for (size_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    for (const uint8_t pixel : pixels.subspan(row * width, width)) rows += static_cast<char>(pixel);
  }
  put_chunk(out, "IDAT", stored(rows));
  put_chunk(out, "IEND", "");
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
