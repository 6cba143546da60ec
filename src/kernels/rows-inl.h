// Kernels on one row. Sums and maxima run in 16 lanes over ascending elements and are then folded by the
// vocabulary's fixed tree, so that every ISA gives the same bits.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

inline void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* y) {
  F32 squares = S::set1(0.0F);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32 v = load_up_to(x + i, n - i, 0.0F);
    squares = S::fma(v, v, squares);
  }
  const float mean = S::reduce_add(squares) / static_cast<float>(n);
  const F32 scale = S::set1(1.0F / __builtin_sqrtf(mean + eps));
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32 v = S::mul(load_up_to(x + i, n - i, 0.0F), scale);
    store_up_to(y + i, S::mul(v, load_up_to(weight + i, n - i, 0.0F)), n - i);
  }
}

inline void softmax(float* x, int64_t n) {
  F32 maxima = S::set1(-kInfinity);
  for (int64_t i = 0; i < n; i += kLanes) maxima = S::max(maxima, load_up_to(x + i, n - i, -kInfinity));
  const F32 maximum = S::set1(S::reduce_max(maxima));
  F32 sums = S::set1(0.0F);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32 e = exp(S::sub(load_up_to(x + i, n - i, -kInfinity), maximum));
    sums = S::add(sums, e);
    store_up_to(x + i, e, n - i);
  }
  const F32 sum = S::set1(S::reduce_add(sums));
  for (int64_t i = 0; i < n; i += kLanes)
    store_up_to(x + i, S::div(load_up_to(x + i, n - i, 0.0F), sum), n - i);
}

inline void sigmoid(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    store_up_to(out + i, sigmoid_of(load_up_to(x + i, n - i, 0.0F)), n - i);
  }
}

/// 1 / (1 + e^-x)
inline F32 logistic(F32 x) {
  return S::div(S::set1(1.0F), S::add(S::set1(1.0F), exp(S::sub(S::set1(0.0F), x))));
}

inline void swiglu_clamped(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32 limit = S::set1(7.0F);
    const F32 g = S::min(load_up_to(gate + i, n - i, 0.0F), limit);
    const F32 u = S::max(S::min(load_up_to(up + i, n - i, 0.0F), limit), S::set1(-7.0F));
    const F32 gated = S::mul(g, logistic(S::mul(S::set1(1.702F), g)));
    store_up_to(out + i, S::mul(gated, S::add(u, S::set1(1.0F))), n - i);
  }
}

inline void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32 g = load_up_to(gate + i, n - i, 0.0F);
    const F32 silu = S::div(g, S::add(S::set1(1.0F), exp(S::sub(S::set1(0.0F), g))));
    store_up_to(out + i, S::mul(silu, load_up_to(up + i, n - i, 0.0F)), n - i);
  }
}

inline void add(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    store_up_to(out + i, S::add(load_up_to(a + i, n - i, 0.0F), load_up_to(b + i, n - i, 0.0F)), n - i);
  }
}

inline void add_scaled(const float* x, float w, int64_t n, float* out) {
  const F32 weight = S::set1(w);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32 sum = S::fma(weight, load_up_to(x + i, n - i, 0.0F), load_up_to(out + i, n - i, 0.0F));
    store_up_to(out + i, sum, n - i);
  }
}

/// Value / scale rounded to nearest even, where scale = max |x| / 127. Dividing (rather than multiplying by a
/// reciprocal) stays finite for every finite x; the clamp is for scales that are themselves rounded, near
/// zero.
SOLI_INLINE I32 to_q8(F32 x, F32 scale) {
  return S::to_i32(S::min(S::max(S::div(x, scale), S::set1(-127.0F)), S::set1(127.0F)));
}

/// With a scale of 0 every x is 0 or vanishes beside 127 units of the smallest number: any divisor rounds it
/// to 0.
SOLI_INLINE F32 divisor_of(float scale) { return S::set1(scale > 0 ? scale : kInfinity); }

inline bool all_finite(const float* x, int64_t n) {
  F32 nothing = S::set1(0.0F);  // 0 * x is NaN for infinities and NaN
  for (int64_t i = 0; i < n; i += kLanes)
    nothing = S::fma(load_up_to(x + i, n - i, 0.0F), S::set1(0.0F), nothing);
  return S::reduce_add(nothing) == 0.0F;
}

inline bool to_q8_of_32(const float* x, int64_t cols, Q8Of32Block* out) {
  if (!all_finite(x, cols)) {
    __builtin_memset(out, 0, static_cast<unsigned long>(activation_row_bytes(ActivationForm::kQ8Of32, cols)));
    return false;
  }
  for (int64_t k = 0; k < cols; k += kQ8BlockElements) {
    Q8Of32Block& block = out[k / 256];
    const int64_t part = k % 256 / kQ8BlockElements;
    int8_t* values = block.values + part * kQ8BlockElements;
    const F32 a = S::load(x + k);
    const F32 b = S::load(x + k + kLanes);
    const float scale = S::reduce_max(S::max(S::abs(a), S::abs(b))) / 127.0F;
    const F32 divisor = divisor_of(scale);
    const I32 qa = to_q8(a, divisor);
    const I32 qb = to_q8(b, divisor);
    S::store_i8(values, qa);
    S::store_i8(values + kLanes, qb);
    block.scales[part] = scale;
    block.negative_sums[part] = -S::reduce_add_i(S::add_i(qa, qb));
  }
  return true;
}

inline bool to_q8_of_256(const float* x, int64_t cols, Q8Of256Block* out) {
  if (!all_finite(x, cols)) {
    __builtin_memset(out, 0,
                     static_cast<unsigned long>(activation_row_bytes(ActivationForm::kQ8Of256, cols)));
    return false;
  }
  for (int64_t k = 0; k < cols; k += 256, ++out) {
    F32 largest = S::set1(0.0F);
    for (int i = 0; i < 256; i += kLanes) largest = S::max(largest, S::abs(S::load(x + k + i)));
    out->scale = S::reduce_max(largest) / 127.0F;
    const F32 divisor = divisor_of(out->scale);
    for (int part = 0; part < 16; ++part) {
      const I32 q = to_q8(S::load(x + k + part * kLanes), divisor);
      S::store_i8(out->values + part * kLanes, q);
      out->sums_of_16[part] = static_cast<int16_t>(S::reduce_add_i(q));
    }
    for (int part = 0; part < 8; ++part) {
      out->sums_of_32[part] = static_cast<int16_t>(out->sums_of_16[2 * part] + out->sums_of_16[2 * part + 1]);
    }
  }
  return true;
}

inline void to_bf16(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = bf16_of_float(x[i]);
}

inline void f32_to_f16(const float* x, int64_t n, half* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) S::store_f16(out + i, S::load(x + i));
  if (i == n) return;
  half lanes[kLanes];
  S::store_f16(lanes, load_tail(x + i, n - i, 0.0F));
  for (int64_t j = i; j < n; ++j) out[j] = lanes[j - i];
}

inline void f16_to_f32(const half* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += kLanes) store_up_to(out + i, load_up_to(x + i, n - i, 0.0F), n - i);
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
