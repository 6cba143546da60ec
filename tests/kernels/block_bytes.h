#pragma once

// Reads numbers from the bytes of a block.

#include <cstddef>
#include <cstdint>

#include "kernels/half.h"

namespace soli::test {

inline int byte_at(const std::byte* p, int64_t i) { return std::to_integer<int>(p[i]); }

inline int signed_byte_at(const std::byte* p, int64_t i) { return (byte_at(p, i) ^ 128) - 128; }

inline float half_at(const std::byte* p) {
  return kernels::float_of_half(static_cast<uint16_t>(byte_at(p, 0) | byte_at(p, 1) << 8));
}

/// Nibble e of 32: 16 low ones, then 16 high ones.
inline int nibble(const std::byte* q, int e) { return e < 16 ? byte_at(q, e) & 15 : byte_at(q, e - 16) >> 4; }

inline int u16(const std::byte* p, int i) { return byte_at(p, 2 * i) | byte_at(p, 2 * i + 1) << 8; }

inline int bit(const std::byte* bits, int i) { return byte_at(bits, i / 8) >> (i % 8) & 1; }

}  // namespace soli::test
