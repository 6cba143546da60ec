#pragma once

// Software conversions of 16-bit floats: the oracle of the hardware's, and what the scalar ISA uses. This
// header is included before any target pragma, so its code is for the oldest machine.

#include <cstdint>
#include <cstring>

namespace soli::kernels {

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// Exact value of an IEEE 754 binary16. A signalling NaN becomes quiet, as with the hardware's instruction.
inline float float_of_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31;
  const uint32_t mantissa = h & 0x3ff;
  if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa != 0 ? 0x00400000 : 0));
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return float_of(sign | bits_of(magnitude));
  }
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// Nearest binary16, ties to even; too large becomes infinity.
inline uint16_t half_of_float(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and above
  if (magnitude < 0x38800000) {
    // Below 2^-14 the unit is 2^-24, which is also the unit of floats in [0.5, 1): the addition rounds.
    const float rounded = float_of(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (bits_of(rounded) - 0x3f000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
}

/// Exact value of a bfloat16.
inline float float_of_bf16(uint16_t b) { return float_of(static_cast<uint32_t>(b) << 16); }

/// Nearest bfloat16, ties to even; NaN stays NaN.
inline uint16_t bf16_of_float(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 64);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace soli::kernels
