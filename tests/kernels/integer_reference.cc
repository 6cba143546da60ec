#include "kernels/integer_reference.h"

#include "kernels/block_bytes.h"

namespace soli::test {
namespace {

constexpr int kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int kE2m1Twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void decode_32(uint32_t type, const std::byte* p, IntegerBlock& b) {
  b.n = 32;
  b.scales[0] = 1;
  b.minima[0] = 1;
  b.d = type == 39 ? std::ldexp(1.0F, byte_at(p, 0) - 128) : half_at(p);
  b.has_minima = type == 3 || type == 7;
  if (b.has_minima) b.minimum_factor = -half_at(p + 2);
  for (int e = 0; e < 32; ++e) {
    int& number = b.numbers[e];
    if (type == 2) number = nibble(p + 2, e) - 8;
    if (type == 3) number = nibble(p + 4, e);
    if (type == 6) number = (nibble(p + 6, e) | bit(p + 2, e) << 4) - 16;
    if (type == 7) number = nibble(p + 8, e) | bit(p + 4, e) << 4;
    if (type == 8) number = signed_byte_at(p, 2 + e);
    if (type == 20) number = kIq4[nibble(p + 2, e)];
    if (type == 39) number = kE2m1Twice[nibble(p + 1, e)];
  }
}

/// ggml's get_scale_min_k4.
void decode_k4_scales(const std::byte* s, IntegerBlock& b) {
  for (int j = 0; j < 8; ++j) {
    if (j < 4) {
      b.scales[j] = byte_at(s, j) & 63;
      b.minima[j] = byte_at(s, j + 4) & 63;
    } else {
      b.scales[j] = (byte_at(s, j + 4) & 15) | (byte_at(s, j - 4) >> 6) << 4;
      b.minima[j] = byte_at(s, j + 4) >> 4 | (byte_at(s, j) >> 6) << 4;
    }
  }
}

void decode_q2_k(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 16;
  b.has_minima = true;
  b.d = half_at(p + 80);
  b.minimum_factor = half_at(p + 82);
  for (int j = 0; j < 16; ++j) {
    b.scales[j] = byte_at(p, j) & 15;
    b.minima[j] = byte_at(p, j) >> 4;
  }
  for (int e = 0; e < 256; ++e)
    b.numbers[e] = byte_at(p + 16, e / 128 * 32 + e % 32) >> (e % 128 / 32 * 2) & 3;
}

void decode_q3_k(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 16;
  b.d = half_at(p + 108);
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? byte_at(p + 96, j) & 15 : byte_at(p + 96, j - 8) >> 4;
    b.scales[j] = (low | (byte_at(p + 104, j % 4) >> (j / 4 * 2) & 3) << 4) - 32;
  }
  for (int e = 0; e < 256; ++e) {
    const int low = byte_at(p + 32, e / 128 * 32 + e % 32) >> (e % 128 / 32 * 2) & 3;
    const int high = byte_at(p, e % 32) >> (e / 32) & 1;
    b.numbers[e] = low - (high != 0 ? 0 : 4);
  }
}

void decode_q4_k(const std::byte* p, bool five_bits, IntegerBlock& b) {
  b.n_parts = 8;
  b.has_minima = true;
  b.d = half_at(p);
  b.minimum_factor = half_at(p + 2);
  decode_k4_scales(p + 4, b);
  const std::byte* q = p + (five_bits ? 48 : 16);
  for (int e = 0; e < 256; ++e) {
    const int both = byte_at(q, e / 64 * 32 + e % 32);
    b.numbers[e] = e / 32 % 2 == 0 ? both & 15 : both >> 4;
    if (five_bits) b.numbers[e] += (byte_at(p + 16, e % 32) >> (e / 32) & 1) * 16;
  }
}

void decode_q6_k(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 16;
  b.d = half_at(p + 208);
  for (int j = 0; j < 16; ++j) b.scales[j] = signed_byte_at(p + 192, j);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = p + half * 64;
    const std::byte* high = p + 128 + half * 32;
    for (int i = 0; i < 32; ++i) {
      int* out = b.numbers + half * 128 + i;
      out[0] = ((byte_at(low, i) & 15) | (byte_at(high, i) & 3) << 4) - 32;
      out[32] = ((byte_at(low, i + 32) & 15) | (byte_at(high, i) >> 2 & 3) << 4) - 32;
      out[64] = (byte_at(low, i) >> 4 | (byte_at(high, i) >> 4 & 3) << 4) - 32;
      out[96] = (byte_at(low, i + 32) >> 4 | (byte_at(high, i) >> 6 & 3) << 4) - 32;
    }
  }
}

void decode_iq4_xs(const std::byte* p, IntegerBlock& b) {
  b.n_parts = 8;
  b.d = half_at(p);
  const int high = byte_at(p, 2) | byte_at(p, 3) << 8;
  for (int j = 0; j < 8; ++j)
    b.scales[j] = ((byte_at(p + 4, j / 2) >> (j % 2 * 4) & 15) | (high >> (2 * j) & 3) << 4) - 32;
  for (int e = 0; e < 256; ++e) b.numbers[e] = kIq4[nibble(p + 8 + e / 32 * 16, e % 32)];
}

void decode_tq2_0(const std::byte* p, IntegerBlock& b) {
  b.d = half_at(p + 64);
  b.scales[0] = 1;
  for (int e = 0; e < 256; ++e)
    b.numbers[e] = (byte_at(p, e / 128 * 32 + e % 32) >> (e % 128 / 32 * 2) & 3) - 1;
}

/// ggml's dequantize_row_tq1_0.
void decode_tq1_0(const std::byte* p, IntegerBlock& b) {
  b.d = half_at(p + 52);
  b.scales[0] = 1;
  int* number = b.numbers;
  struct Run {
    int first, n, digits;
  };
  for (const Run run : {Run{0, 32, 5}, Run{32, 16, 5}, Run{48, 4, 4}}) {
    for (int digit = 0, power = 1; digit < run.digits; ++digit, power *= 3) {
      for (int i = 0; i < run.n; ++i) {
        const auto q = static_cast<uint8_t>(byte_at(p, run.first + i) * power);
        *number++ = (q * 3 >> 8) - 1;
      }
    }
  }
}

/// Scales in units of 2^-10: half of a number with 4 exponent and 3 mantissa bits, whose bias is 7.
void decode_nvfp4(const std::byte* p, IntegerBlock& b) {
  b.n = 64;
  b.n_parts = 4;
  b.d = 0x1p-10F;
  for (int j = 0; j < 4; ++j) {
    const int exponent = byte_at(p, j) >> 3 & 15;
    const int mantissa = byte_at(p, j) & 7;
    b.scales[j] = exponent == 0 ? mantissa : (mantissa + 8) << (exponent - 1);
    if (byte_at(p, j) == 127) b.scales[j] = 0;
    for (int i = 0; i < 8; ++i) {
      const int both = byte_at(p, 4 + j * 8 + i);
      b.numbers[j * 16 + i] = kE2m1Twice[both & 15];
      b.numbers[j * 16 + 8 + i] = kE2m1Twice[both >> 4];
    }
  }
}

/// One scale for parts of 32.
void decode_q1_0_or_q2_0(const std::byte* p, bool two_bits, IntegerBlock& b) {
  b.n = two_bits ? 64 : 128;
  b.n_parts = b.n / 32;
  b.d = half_at(p);
  for (int j = 0; j < b.n_parts; ++j) b.scales[j] = 1;
  for (int e = 0; e < b.n; ++e)
    b.numbers[e] = two_bits ? (byte_at(p + 2, e / 4) >> e % 4 * 2 & 3) - 1 : 2 * bit(p + 2, e) - 1;
}

/// Sums of products of numbers and activations, and of activations.
struct Dots {
  int64_t dots = 0;
  int64_t minima = 0;
};

/// The integers that a part contributes.
Dots dots_of_part(const IntegerBlock& b, int part, const int* x) {
  Dots dots;
  const int part_elements = b.n / b.n_parts;
  for (int e = part * part_elements; e < (part + 1) * part_elements; ++e) {
    dots.dots += int64_t{b.numbers[e]} * x[e];
    dots.minima += x[e];
  }
  return dots;
}

/// The same of a block of 256, weighted by the scales and minima of its parts.
Dots dots_of(const IntegerBlock& b, const int* x) {
  Dots dots;
  for (int part = 0; part < b.n_parts; ++part) {
    const Dots of_part = dots_of_part(b, part, x);
    dots.dots += b.scales[part] * of_part.dots;
    dots.minima += b.minima[part] * of_part.minima;
  }
  EXPECT_LT(std::abs(dots.dots), int64_t{1} << 31);
  EXPECT_LT(std::abs(dots.minima), int64_t{1} << 31);
  return dots;
}

/// Parts of 32 or 16 elements, with activations that have a scale per 32.
float add_parts(const IntegerBlock& b, const IntegerActivations& x, int64_t k, float sum) {
  for (int part = 0; part < b.n_parts; ++part) {
    const Dots dots = dots_of_part(b, part, x.values.data() + k);
    const float d_activation = x.scales[static_cast<size_t>((k + part * b.n / b.n_parts) / 32)];
    sum =
        std::fma(static_cast<float>(dots.dots), static_cast<float>(b.scales[part]) * b.d * d_activation, sum);
    if (b.has_minima) sum = std::fma(b.minimum_factor, d_activation * static_cast<float>(-dots.minima), sum);
  }
  return sum;
}

/// A block of 256, with activations that have one scale.
float add_block(const IntegerBlock& b, const IntegerActivations& x, int64_t k, float sum) {
  const Dots dots = dots_of(b, x.values.data() + k);
  float value = static_cast<float>(dots.dots) * b.d;
  if (b.has_minima) value = std::fma(static_cast<float>(dots.minima), -b.minimum_factor, value);
  return std::fma(value, x.scales[static_cast<size_t>(k / 256)], sum);
}

}  // namespace

IntegerBlock decode_integers(uint32_t gguf_type, const std::byte* bytes) {
  IntegerBlock b;
  b.n = 256;
  switch (gguf_type) {
    case 10:
      decode_q2_k(bytes, b);
      break;
    case 11:
      decode_q3_k(bytes, b);
      break;
    case 12:
    case 13:
      decode_q4_k(bytes, gguf_type == 13, b);
      break;
    case 14:
      decode_q6_k(bytes, b);
      break;
    case 23:
      decode_iq4_xs(bytes, b);
      break;
    case 34:
      decode_tq1_0(bytes, b);
      break;
    case 35:
      decode_tq2_0(bytes, b);
      break;
    case 40:
      decode_nvfp4(bytes, b);
      break;
    case 41:
    case 42:
      decode_q1_0_or_q2_0(bytes, gguf_type == 42, b);
      break;
    case 2:
    case 3:
    case 6:
    case 7:
    case 8:
    case 20:
    case 39:
      decode_32(gguf_type, bytes, b);
      break;
    default:
      if (!decode_grid(gguf_type, bytes, b)) ADD_FAILURE() << "no integer reference for type " << gguf_type;
  }
  return b;
}

float integer_reference(const TestMatrix& m, int64_t row, const IntegerActivations& x) {
  float sum = 0;
  const std::byte* bytes = m.gguf.data() + row * m.type->row_bytes(m.cols);
  for (int64_t k = 0; k < m.cols; k += m.type->block_elements, bytes += m.type->block_bytes) {
    const IntegerBlock b = decode_integers(m.type->gguf_type, bytes);
    sum = x.scale_elements == 32 ? add_parts(b, x, k, sum) : add_block(b, x, k, sum);
  }
  return sum;
}

}  // namespace soli::test
