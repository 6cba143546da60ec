// What the K-quants share: blocks of 256 whose parts of 32 or 16 have their own small scales, and the search
// for those scales when quantising.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// The 12 bytes of Q4_K and Q5_K that hold a 6-bit scale and a 6-bit minimum for each of 8 parts of 32. Bytes
/// 0..3 have the scales of parts 0..3 in their low bits, bytes 4..7 the minima; bytes 8..11 have the low
/// nibbles of both for parts 4..7, whose high bits lie in the top of bytes 0..7.
struct KScales {
  uint8_t bytes[12];

  int scale(int part) const {
    if (part < 4) return bytes[part] & 63;
    return (bytes[part + 4] & 15) | (bytes[part - 4] >> 6) << 4;
  }
  int minimum(int part) const {
    if (part < 4) return bytes[part + 4] & 63;
    return bytes[part + 4] >> 4 | (bytes[part] >> 6) << 4;
  }
  void set(int part, int scale, int minimum) {
    if (part < 4) {
      bytes[part] = static_cast<uint8_t>((bytes[part] & 0xc0) | scale);
      bytes[part + 4] = static_cast<uint8_t>((bytes[part + 4] & 0xc0) | minimum);
      return;
    }
    bytes[part + 4] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
    bytes[part - 4] = static_cast<uint8_t>((bytes[part - 4] & 63) | (scale >> 4) << 6);
    bytes[part] = static_cast<uint8_t>((bytes[part] & 63) | (minimum >> 4) << 6);
  }
};

/// The same for 16 rows of Q4_K or Q5_K, whose packed blocks begin with d, d_minimum and the KScales.
struct KScaleVectors {
  I32 scales, minima, both;
  F32 d, d_minimum;

  explicit SOLI_INLINE KScaleVectors(const std::byte* packed)
      : scales(S::load_i(packed + 64)),
        minima(S::load_i(packed + 128)),
        both(S::load_i(packed + 192)),
        d(S::load_f16(packed)),
        d_minimum(S::load_f16(packed + 32)) {}
  SOLI_INLINE I32 scale(int p) const {
    if (p < 4) return bits_at(scales, 8 * p, 6);
    const int shift = 8 * (p - 4);
    return S::or_i(bits_at(both, shift, 4), S::shift_left(bits_at(scales, shift + 6, 2), 4));
  }
  SOLI_INLINE I32 minimum(int p) const {
    if (p < 4) return bits_at(minima, 8 * p, 6);
    const int shift = 8 * (p - 4);
    return S::or_i(bits_at(both, shift + 4, 4), S::shift_left(bits_at(minima, shift + 6, 2), 4));
  }
};

/// x ~ scale * q - minimum, with q in [0, levels] and minimum >= 0.
struct AffineFit {
  float scale;
  float minimum;
};

/// Squared error of x ~ a * q + b with the least-squares a and b for the q that `inverse` and `low` give.
inline float try_affine(const float* x, int n, int levels, float inverse, float low, AffineFit* fit) {
  double sum_q = 0, sum_qq = 0, sum_x = 0, sum_xq = 0, sum_xx = 0;
  for (int i = 0; i < n; ++i) {
    const double q = round_clamped(inverse * (x[i] - low), 0, levels);
    const double v = x[i];
    sum_q += q;
    sum_qq += q * q;
    sum_x += v;
    sum_xq += v * q;
    sum_xx += v * v;
  }
  const double determinant = n * sum_qq - sum_q * sum_q;
  if (!(determinant > 0)) return kInfinity;
  double a = (n * sum_xq - sum_q * sum_x) / determinant;
  double b = (sum_x - a * sum_q) / n;
  if (b > 0) {  // the format cannot lift a part above zero
    b = 0;
    a = sum_xq / sum_qq;
  }
  *fit = {static_cast<float>(a), static_cast<float>(-b)};
  return static_cast<float>(sum_xx - 2 * a * sum_xq - 2 * b * sum_x + a * a * sum_qq + 2 * a * b * sum_q +
                            n * b * b);
}

/// The best of a row of slightly different widths.
inline AffineFit fit_affine(const float* x, int n, int levels) {
  float low = 0;
  float high = x[0];
  for (int i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  AffineFit best{0, -low};
  if (!(high > low)) return best;
  best.scale = (high - low) / static_cast<float>(levels);
  float best_error = kInfinity;
  for (int step = -10; step <= 10; ++step) {
    AffineFit fit{};
    const float inverse = (static_cast<float>(levels) + 0.1F * static_cast<float>(step)) / (high - low);
    const float error = try_affine(x, n, levels, inverse, low, &fit);
    if (error < best_error && fit.scale > 0) {
      best_error = error;
      best = fit;
    }
  }
  return best;
}

/// A block of 256 as numbers in [0, levels], with integer scales and minima in [0, scale_levels] for its
/// parts.
struct AffineBlock {
  half d;
  half d_minimum;
  uint8_t scales[16];
  uint8_t minima[16];
  uint8_t q[256];
};

inline void quantize_affine_block(const float* in, int part_elements, int levels, int scale_levels,
                                  AffineBlock* block) {
  AffineFit fits[16];
  float max_scale = 0;
  float max_minimum = 0;
  for (int part = 0; part < 256 / part_elements; ++part) {
    fits[part] = fit_affine(in + part * part_elements, part_elements, levels);
    max_scale = fits[part].scale > max_scale ? fits[part].scale : max_scale;
    max_minimum = fits[part].minimum > max_minimum ? fits[part].minimum : max_minimum;
  }
  block->d = half_of_float(max_scale / static_cast<float>(scale_levels));
  block->d_minimum = half_of_float(max_minimum / static_cast<float>(scale_levels));
  const float d = float_of_half(block->d);
  const float d_minimum = float_of_half(block->d_minimum);
  for (int i = 0; i < 256; ++i) {
    const int part = i / part_elements;
    const int scale = d > 0 ? round_clamped(fits[part].scale / d, 0, scale_levels) : 0;
    const int minimum = d_minimum > 0 ? round_clamped(fits[part].minimum / d_minimum, 0, scale_levels) : 0;
    block->scales[part] = static_cast<uint8_t>(scale);
    block->minima[part] = static_cast<uint8_t>(minimum);
    const float step = d * static_cast<float>(scale);
    const float offset = d_minimum * static_cast<float>(minimum);
    block->q[i] = static_cast<uint8_t>(step > 0 ? round_clamped((in[i] + offset) / step, 0, levels) : 0);
  }
}

/// The scale of x ~ scale * q with q in [-levels, levels - 1] of least squared error among some widths.
inline float fit_symmetric(const float* x, int n, int levels) {
  const float extreme = extreme_of(x, n);
  float best = extreme / static_cast<float>(-levels);
  if (extreme == 0) return best;
  double best_gain = 0;  // how far the squared error falls below that of all zeros
  for (int step = -9; step <= 9; ++step) {
    const float inverse = -(static_cast<float>(levels) + 0.1F * static_cast<float>(step)) / extreme;
    double sum_xq = 0, sum_qq = 0;
    for (int i = 0; i < n; ++i) {
      const double q = round_clamped(x[i] * inverse, -levels, levels - 1);
      sum_xq += x[i] * q;
      sum_qq += q * q;
    }
    if (!(sum_qq > 0) || !(sum_xq * sum_xq > best_gain * sum_qq)) continue;
    best_gain = sum_xq * sum_xq / sum_qq;
    best = static_cast<float>(sum_xq / sum_qq);
  }
  return best;
}

/// A block of 256 as numbers in [0, 2 levels), zero being `levels`, with signed scales for its 16 parts
/// of 16.
struct SymmetricBlock {
  half d;
  int scales[16];
  uint8_t q[256];
};

inline void quantize_symmetric_block(const float* in, int levels, int scale_levels, SymmetricBlock* block) {
  float fits[16];
  for (int part = 0; part < 16; ++part) fits[part] = fit_symmetric(in + part * 16, 16, levels);
  block->d = half_of_float(extreme_of(fits, 16) / static_cast<float>(-scale_levels));
  const float d = float_of_half(block->d);
  for (int i = 0; i < 256; ++i) {
    int& scale = block->scales[i / 16];
    scale = d != 0 ? round_clamped(fits[i / 16] / d, -scale_levels, scale_levels - 1) : 0;
    const float step = d * static_cast<float>(scale);
    block->q[i] =
        static_cast<uint8_t>((step != 0 ? round_clamped(in[i] / step, -levels, levels - 1) : 0) + levels);
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
