// The 16-lane vocabulary in one 512-bit register. Meanings are documented in scalar-inl.h.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Simd {
  struct F32 {
    __m512 v;
  };
  struct I32 {
    __m512i v;
  };

  static constexpr int kTwofoldTileStrips = 2;
  static constexpr int kTwofoldTileTokens = 6;
  static constexpr int kTileStrips = 4;
  static constexpr int kTileTokens = 4;
  static constexpr int kFewTokens = 8;
  static constexpr int kProbeSums = 12;
  static constexpr int kQueryTile = 4;
  static constexpr int kAccumulators = 16;
  static constexpr int kDotOffset = 128;  // VNNI multiplies unsigned weights

  static SOLI_INLINE F32 set1(float x) { return {_mm512_set1_ps(x)}; }
  static SOLI_INLINE F32 broadcast(const float* p) {
    F32 a = set1(*p);
    asm("" : "+v"(a.v));
    return a;
  }
  static SOLI_INLINE F32 load(const void* p) { return {_mm512_loadu_ps(p)}; }
  static SOLI_INLINE void store(void* p, F32 a) { _mm512_storeu_ps(p, a.v); }
  static SOLI_INLINE F32 add(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
  static SOLI_INLINE F32 sub(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static SOLI_INLINE F32 mul(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static SOLI_INLINE F32 div(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
  static SOLI_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static SOLI_INLINE F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
  static SOLI_INLINE F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
  static SOLI_INLINE F32 abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
  static SOLI_INLINE float reduce_add(F32 a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static SOLI_INLINE float reduce_max(F32 a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  static SOLI_INLINE I32 set1_i(int32_t x) { return {_mm512_set1_epi32(x)}; }
  static SOLI_INLINE I32 broadcast_i(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    I32 a = set1_i(four);
    asm("" : "+v"(a.v));
    return a;
  }
  static SOLI_INLINE void store_i(void* p, I32 a) { _mm512_storeu_si512(p, a.v); }
  static SOLI_INLINE I32 load_i(const void* p) { return {_mm512_loadu_si512(p)}; }
  static SOLI_INLINE I32 load_u16(const void* p) {
    return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  static SOLI_INLINE I32 load_u8(const void* p) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static SOLI_INLINE I32 lookup(const int8_t* table, I32 indices) {
    const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), indices.v)};
  }
  static SOLI_INLINE I32 lookup_i(const int32_t* table, I32 indices) {
    return {_mm512_permutexvar_epi32(indices.v, _mm512_loadu_si512(table))};
  }
  static SOLI_INLINE I32 gather(const void* table, I32 indices) {
    return {_mm512_i32gather_epi32(indices.v, table, 4)};
  }
  static SOLI_INLINE void store_i8(int8_t* p, I32 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
  }
  static SOLI_INLINE I32 add_i(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
  static SOLI_INLINE I32 sub_i(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  static SOLI_INLINE I32 and_i(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
  static SOLI_INLINE I32 or_i(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
  static SOLI_INLINE I32 xor_i(I32 a, I32 b) { return {_mm512_xor_si512(a.v, b.v)}; }
  static SOLI_INLINE I32 shift_left(I32 a, int n) {
    return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))};
  }
  static SOLI_INLINE I32 shift_right(I32 a, int n) {
    return {_mm512_srai_epi32(a.v, static_cast<unsigned>(n))};
  }
  static SOLI_INLINE I32 mul_i(I32 a, I32 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
  static SOLI_INLINE int32_t reduce_add_i(I32 a) {
    const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1));
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
  }
  static SOLI_INLINE I32 dot_i8(I32 acc, I32 weights, I32 activations) {
    return {_mm512_dpbusd_epi32(acc.v, weights.v, activations.v)};
  }
  static SOLI_INLINE I32 dot_u7(I32 acc, I32 weights, I32 activations) {
    return dot_i8(acc, weights, activations);
  }
  static SOLI_INLINE I32 dot_i16(I32 acc, I32 a, I32 b) { return {_mm512_dpwssd_epi32(acc.v, a.v, b.v)}; }
#if defined(SOLI_ISA_HAS_BF16)
  static SOLI_INLINE F32 dot_bf16(F32 acc, I32 a, I32 b) {
    return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
  }
#else
  static SOLI_INLINE F32 dot_bf16(F32 acc, I32 a, I32 b) {
    const I32 high = set1_i(static_cast<int32_t>(0xffff0000U));
    const F32 sum = fma(without_denormals(as_f32(and_i(a, high))), without_denormals(as_f32(and_i(b, high))),
                        without_denormals(acc));
    return without_denormals(fma(without_denormals(as_f32(shift_left(a, 16))),
                                 without_denormals(as_f32(shift_left(b, 16))), without_denormals(sum)));
  }
#endif

  static SOLI_INLINE F32 to_f32(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
  static SOLI_INLINE I32 to_i32(F32 a) { return {_mm512_cvtps_epi32(a.v)}; }
  static SOLI_INLINE F32 as_f32(I32 a) { return {_mm512_castsi512_ps(a.v)}; }
  static SOLI_INLINE F32 load_f16(const void* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  static SOLI_INLINE F32 f32_of_f16(I32 a) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))}; }
  static SOLI_INLINE void store_f16(void* p, F32 a) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
  }

 private:
  /// Zeros, with their sign, instead of denormals.
  static SOLI_INLINE F32 without_denormals(F32 a) {
    const __m512 sign = _mm512_and_ps(a.v, _mm512_set1_ps(-0.0F));
    return {
        _mm512_mask_mov_ps(a.v, _mm512_cmp_ps_mask(abs(a).v, _mm512_set1_ps(0x1p-126F), _CMP_LT_OQ), sign)};
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
