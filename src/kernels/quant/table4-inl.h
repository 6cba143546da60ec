// What the four-bit types with a table of values share (IQ4_NL, IQ4_XS, MXFP4, NVFP4).

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// IQ4_NL and IQ4_XS: denser near zero, as weights are.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

/// MXFP4 and NVFP4: twice the numbers of 1 sign, 2 exponent and 1 mantissa bit; and the same + 12, not
/// negative, as OffsetNumbers are.
inline constexpr int8_t kE2m1Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
inline constexpr int8_t kE2m1OffsetValues[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/// The index of the value nearest to x, the first of two.
inline int nearest_value(const int8_t* values, float x) {
  int best = 0;
  for (int i = 1; i < 16; ++i) {
    const float distance = __builtin_fabsf(static_cast<float>(values[i]) - x);
    if (distance < __builtin_fabsf(static_cast<float>(values[best]) - x)) best = i;
  }
  return best;
}

/// The scale of x ~ scale * value of least squared error among some that map the largest element near an end.
inline float fit_iq4(const float* x, int n) {
  const float extreme = extreme_of(x, n);
  float best = extreme / -127;
  if (extreme == 0) return best;
  double best_gain = 0;  // how far the squared error falls below that of all zeros
  for (int step = -8; step <= 24; ++step) {
    for (int side = 0; side < 2; ++side) {
      const float end = side == 0 ? -127.0F : 113.0F;
      const float inverse = (end + (end < 0 ? 1.0F : -1.0F) * static_cast<float>(step)) / extreme;
      double sum_xq = 0, sum_qq = 0;
      for (int i = 0; i < n; ++i) {
        const double q = kIq4Values[nearest_value(kIq4Values, x[i] * inverse)];
        sum_xq += x[i] * q;
        sum_qq += q * q;
      }
      if (!(sum_xq * sum_xq > best_gain * sum_qq)) continue;
      best_gain = sum_xq * sum_xq / sum_qq;
      best = static_cast<float>(sum_xq / sum_qq);
    }
  }
  return best;
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
