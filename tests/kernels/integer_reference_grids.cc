// The integers of the types with grids (ggml's dequantize_row_iq*). What is an entry of which grid is read
// from the tables of the kernels, which grids_test.cc holds to ggml's.

#include "kernels/block_bytes.h"
#include "kernels/integer_reference.h"
#include "kernels/quant/grids.h"

namespace soli::test {
namespace {

constexpr int kIq2[3] = {8, 25, 43};
constexpr int kIq3Xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};

/// What all grids of one type share: numbers of eights, with their signs.
void set_eight(IntegerBlock& b, int g, const uint32_t (&entries)[2], const int* values, int signs) {
  for (int j = 0; j < 8; ++j) {
    const bool second = j >= 4;
    const int level = static_cast<int>(entries[second ? 1 : 0] >> (j % 4 * 8)) & 15;
    b.numbers[g * 8 + j] = (signs >> j & 1) != 0 ? -values[level] : values[level];
  }
}

/// Of grids of eight, whose second four lie above the first.
void set_eight(IntegerBlock& b, int g, uint32_t entry, const int* values, int signs) {
  set_eight(b, g, {entry, entry >> 4}, values, signs);
}

int with_eighth_sign(int seven) {
  int minuses = 0;
  for (int j = 0; j < 7; ++j) minuses += seven >> j & 1;
  return seven | minuses % 2 << 7;
}

void decode_iq2_xxs(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 8;
  b.d = half_at(p) / 8;
  for (int j = 0; j < 8; ++j) {
    const std::byte* part = p + 2 + j * 8;
    const auto bits = static_cast<uint32_t>(u16(part, 2)) | static_cast<uint32_t>(u16(part, 3)) << 16;
    b.scales[j] = 2 * static_cast<int>(bits >> 28) + 1;
    for (int l = 0; l < 4; ++l) {
      set_eight(b, j * 4 + l, kernels::kIq2XxsTable.entries[byte_at(part, l)], kIq2,
                with_eighth_sign(static_cast<int>(bits >> 7 * l) & 127));
    }
  }
}

void decode_iq2_xs(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 16;
  b.d = half_at(p) / 8;
  for (int j = 0; j < 16; ++j) b.scales[j] = 2 * (byte_at(p + 66, j / 2) >> j % 2 * 4 & 15) + 1;
  for (int g = 0; g < 32; ++g) {
    const int q = u16(p + 2, g);
    set_eight(b, g, kernels::kIq2XsTable.entries[q % 512], kIq2, with_eighth_sign(q / 512));
  }
}

void decode_iq2_s(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 16;
  b.d = half_at(p) / 8;
  for (int j = 0; j < 16; ++j) b.scales[j] = 2 * (byte_at(p + 74, j / 2) >> j % 2 * 4 & 15) + 1;
  for (int g = 0; g < 32; ++g) {
    const int high = byte_at(p + 66, g / 4) << (8 - 2 * (g % 4)) & 0x300;
    set_eight(b, g, kernels::kIq2STable.entries[byte_at(p + 2, g) | high], kIq2, byte_at(p + 34, g));
  }
}

void decode_iq3_xxs(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 8;
  b.d = half_at(p) / 4;
  const uint32_t* entries = kernels::kIq3XxsTable.entries;
  for (int j = 0; j < 8; ++j) {
    const std::byte* part = p + 66 + j * 4;
    const auto bits = static_cast<uint32_t>(u16(part, 0)) | static_cast<uint32_t>(u16(part, 1)) << 16;
    b.scales[j] = 2 * static_cast<int>(bits >> 28) + 1;
    for (int l = 0; l < 4; ++l) {
      const std::byte* q = p + 2 + j * 8 + l * 2;
      set_eight(b, j * 4 + l, {entries[byte_at(q, 0)], entries[byte_at(q, 1)]}, kIq3Xxs,
                with_eighth_sign(static_cast<int>(bits >> 7 * l) & 127));
    }
  }
}

void decode_iq3_s(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 8;
  b.d = half_at(p);
  constexpr int kOdd[8] = {1, 3, 5, 7, 9, 11, 13, 15};
  const uint32_t* entries = kernels::kIq3STable.entries;
  for (int j = 0; j < 8; ++j) b.scales[j] = 2 * (byte_at(p + 106, j / 2) >> j % 2 * 4 & 15) + 1;
  for (int g = 0; g < 32; ++g) {
    const int first = byte_at(p + 2, 2 * g) | bit(p + 66, 2 * g) << 8;
    const int second = byte_at(p + 2, 2 * g + 1) | bit(p + 66, 2 * g + 1) << 8;
    set_eight(b, g, {entries[first], entries[second]}, kOdd, byte_at(p + 74, g));
  }
}

/// -1, 0 and 1 with a shift of an eighth, in eighths.
void set_shifted_eight(IntegerBlock& b, int g, int index, bool down) {
  constexpr int kUp[3] = {-7, 1, 9};
  constexpr int kDown[3] = {-9, -1, 7};
  set_eight(b, g, kernels::kIq1Table.entries[index], down ? kDown : kUp, 0);
}

void decode_iq1_s(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 8;
  b.d = half_at(p) / 8;
  for (int j = 0; j < 8; ++j) {
    const int high = u16(p + 34, j);
    b.scales[j] = 2 * (high >> 12 & 7) + 1;
    for (int l = 0; l < 4; ++l) {
      const int index = byte_at(p + 2, j * 4 + l) | (high >> 3 * l & 7) << 8;
      set_shifted_eight(b, j * 4 + l, index, (high & 0x8000) != 0);
    }
  }
}

void decode_iq1_m(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 16;
  const std::byte* scales = p + 48;
  int d = 0;
  for (int i = 0; i < 4; ++i) d |= (u16(scales, i) >> 12) << 4 * i;
  b.d = kernels::float_of_half(static_cast<uint16_t>(d)) / 8;
  for (int j = 0; j < 16; ++j) b.scales[j] = 2 * (u16(scales, j / 4) >> 3 * (j % 4) & 7) + 1;
  for (int g = 0; g < 32; ++g) {
    const int nibble = byte_at(p + 32, g / 2) >> g % 2 * 4 & 15;
    set_shifted_eight(b, g, byte_at(p, g) | (nibble & 7) << 8, nibble >= 8);
  }
}

}  // namespace

bool decode_grid(uint32_t gguf_type, const std::byte* bytes, IntegerBlock& b) {
  switch (gguf_type) {
    case 16:
      decode_iq2_xxs(bytes, b);
      return true;
    case 17:
      decode_iq2_xs(bytes, b);
      return true;
    case 18:
      decode_iq3_xxs(bytes, b);
      return true;
    case 19:
      decode_iq1_s(bytes, b);
      return true;
    case 21:
      decode_iq3_s(bytes, b);
      return true;
    case 22:
      decode_iq2_s(bytes, b);
      return true;
    case 29:
      decode_iq1_m(bytes, b);
      return true;
    default:
      return false;
  }
}

}  // namespace soli::test
