// What the kernels build from the vocabulary: tails of rows, 16-bit and 32-bit loads alike, exp.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

using S = Simd;
using F32 = Simd::F32;
using I32 = Simd::I32;

inline constexpr int kLanes = 16;
inline constexpr float kInfinity = __builtin_inff();

/// The first n < 16 floats at p; the other lanes are `fill`.
SOLI_INLINE F32 load_tail(const float* p, int64_t n, float fill) {
  float lanes[kLanes];
  S::store(lanes, S::set1(fill));
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return S::load(lanes);
}

SOLI_INLINE F32 load_tail(const half* p, int64_t n, float fill) {
  half lanes[kLanes];
  S::store_f16(lanes, S::set1(fill));
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return S::load_f16(lanes);
}

SOLI_INLINE void store_tail(float* p, F32 a, int64_t n) {
  float lanes[kLanes];
  S::store(lanes, a);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

SOLI_INLINE F32 load_full(const float* p) { return S::load(p); }
SOLI_INLINE F32 load_full(const half* p) { return S::load_f16(p); }

/// Up to 16 elements, of which n > 0 exist.
template <typename T>
SOLI_INLINE F32 load_up_to(const T* p, int64_t n, float fill) {
  return n >= kLanes ? load_full(p) : load_tail(p, n, fill);
}

SOLI_INLINE void store_up_to(float* p, F32 a, int64_t n) {
  if (n >= kLanes) {
    S::store(p, a);
  } else {
    store_tail(p, a, n);
  }
}

/// e^x within 1 ulp: 0 below -104, infinity above 88.73, NaN for NaN. x = n ln 2 + r with |r| <= ln 2 / 2
/// (Cody, Waite 1980), and the Taylor polynomial of degree 7, whose remainder r^8 / 8! is below 6e-9. 2^n is
/// applied in two factors, so that results below the normal range are rounded once.
SOLI_INLINE F32 exp(F32 x) {
  // The variable is the second operand: a NaN goes through.
  x = S::min(S::set1(89.0F), S::max(S::set1(-105.0F), x));
  const I32 n = S::to_i32(S::mul(x, S::set1(0x1.715476p+0F)));
  const F32 whole = S::to_f32(n);
  F32 r = S::fma(whole, S::set1(-0x1.62e400p-1F), x);  // the leading bits of ln 2
  r = S::fma(whole, S::set1(-0x1.7f7d1cp-20F), r);     // the rest
  F32 p = S::set1(1.0F / 5040);
  p = S::fma(p, r, S::set1(1.0F / 720));
  p = S::fma(p, r, S::set1(1.0F / 120));
  p = S::fma(p, r, S::set1(1.0F / 24));
  p = S::fma(p, r, S::set1(1.0F / 6));
  p = S::fma(p, r, S::set1(0.5F));
  p = S::fma(p, r, S::set1(1.0F));
  p = S::fma(p, r, S::set1(1.0F));
  const I32 first = S::shift_right(n, 1);
  const I32 bias = S::set1_i(127);
  const F32 factor1 = S::as_f32(S::shift_left(S::add_i(first, bias), 23));
  const F32 factor2 = S::as_f32(S::shift_left(S::add_i(S::sub_i(n, first), bias), 23));
  return S::mul(S::mul(p, factor1), factor2);
}

/// 1 / (1 + e^-x).
SOLI_INLINE F32 sigmoid_of(F32 x) {
  const F32 one = S::set1(1.0F);
  return S::div(one, S::add(one, exp(S::sub(S::set1(0.0F), x))));
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
