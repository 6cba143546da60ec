// The 16-lane vocabulary in two 256-bit registers. Meanings are documented in scalar-inl.h.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Simd {
  struct F32 {
    __m256 lo, hi;
  };
  struct I32 {
    __m256i lo, hi;
  };

  static constexpr int kTwofoldTileStrips = 1;
  static constexpr int kTwofoldTileTokens = 4;
  static constexpr int kTileStrips = 1;
  static constexpr int kTileTokens = 4;
  static constexpr int kFewTokens = 2;
  static constexpr int kProbeSums = 6;
  static constexpr int kQueryTile = 4;
  static constexpr int kAccumulators = 4;
#if defined(SOLI_ISA_HAS_VNNI)
  static constexpr int kDotOffset = 128;
#else
  static constexpr int kDotOffset = 0;
#endif

  static SOLI_INLINE F32 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static SOLI_INLINE F32 broadcast(const float* p) {
    const __m256 a = _mm256_broadcast_ss(p);
    return {a, a};
  }
  static SOLI_INLINE F32 load(const void* p) {
    const auto* floats = static_cast<const float*>(p);
    return {_mm256_loadu_ps(floats), _mm256_loadu_ps(floats + 8)};
  }
  static SOLI_INLINE void store(void* p, F32 a) {
    _mm256_storeu_ps(static_cast<float*>(p), a.lo);
    _mm256_storeu_ps(static_cast<float*>(p) + 8, a.hi);
  }
  static SOLI_INLINE F32 add(F32 a, F32 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  static SOLI_INLINE F32 sub(F32 a, F32 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  static SOLI_INLINE F32 mul(F32 a, F32 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  static SOLI_INLINE F32 div(F32 a, F32 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static SOLI_INLINE F32 fma(F32 a, F32 b, F32 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static SOLI_INLINE F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static SOLI_INLINE F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static SOLI_INLINE F32 abs(F32 a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static SOLI_INLINE float reduce_add(F32 a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static SOLI_INLINE float reduce_max(F32 a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  static SOLI_INLINE I32 set1_i(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  static SOLI_INLINE I32 broadcast_i(const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const __m256i a = _mm256_set1_epi32(four);
    return {a, a};
  }
  static SOLI_INLINE void store_i(void* p, I32 a) {
    auto* halves = static_cast<__m256i*>(p);
    _mm256_storeu_si256(halves, a.lo);
    _mm256_storeu_si256(halves + 1, a.hi);
  }
  static SOLI_INLINE I32 load_i(const void* p) {
    const auto* halves = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
  }
  static SOLI_INLINE I32 load_u16(const void* p) {
    const auto* halves = static_cast<const __m128i*>(p);
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128(halves)),
            _mm256_cvtepu16_epi32(_mm_loadu_si128(halves + 1))};
  }
  static SOLI_INLINE I32 load_u8(const void* p) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
  }
  static SOLI_INLINE I32 lookup(const int8_t* table, I32 indices) {
    const __m256i entries =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return {_mm256_shuffle_epi8(entries, indices.lo), _mm256_shuffle_epi8(entries, indices.hi)};
  }
  static SOLI_INLINE I32 lookup_i(const int32_t* table, I32 indices) {
    const auto* halves = reinterpret_cast<const __m256i*>(table);
    const __m256i low = _mm256_loadu_si256(halves);
    const __m256i high = _mm256_loadu_si256(halves + 1);
    return {lookup_i(low, high, indices.lo), lookup_i(low, high, indices.hi)};
  }
  static SOLI_INLINE I32 gather(const void* table, I32 indices) {
    const auto* entries = static_cast<const int*>(table);
    return {_mm256_i32gather_epi32(entries, indices.lo, 4), _mm256_i32gather_epi32(entries, indices.hi, 4)};
  }
  static SOLI_INLINE void store_i8(int8_t* p, I32 a) {
    // Packing works within 128-bit halves, so that the 64-bit quarters come out as 0, 2, 1, 3.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
  static SOLI_INLINE I32 add_i(I32 a, I32 b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
  }
  static SOLI_INLINE I32 sub_i(I32 a, I32 b) {
    return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
  }
  static SOLI_INLINE I32 and_i(I32 a, I32 b) {
    return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
  }
  static SOLI_INLINE I32 or_i(I32 a, I32 b) {
    return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
  }
  static SOLI_INLINE I32 xor_i(I32 a, I32 b) {
    return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
  }
  static SOLI_INLINE I32 shift_left(I32 a, int n) {
    return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
  }
  static SOLI_INLINE I32 shift_right(I32 a, int n) {
    return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
  }
  static SOLI_INLINE I32 mul_i(I32 a, I32 b) {
    return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
  }
  static SOLI_INLINE int32_t reduce_add_i(I32 a) {
    const __m256i eight = _mm256_add_epi32(a.lo, a.hi);
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
  }
#if defined(SOLI_ISA_HAS_VNNI)
  static SOLI_INLINE I32 dot_i8(I32 acc, I32 weights, I32 activations) {
    return {_mm256_dpbusd_avx_epi32(acc.lo, weights.lo, activations.lo),
            _mm256_dpbusd_avx_epi32(acc.hi, weights.hi, activations.hi)};
  }
  static SOLI_INLINE I32 dot_u7(I32 acc, I32 weights, I32 activations) {
    return dot_i8(acc, weights, activations);
  }
#else
  static SOLI_INLINE I32 dot_i8(I32 acc, I32 weights, I32 activations) {
    // |w| * (x with the sign of w): at most 2 * 128 * 127 in 16 bits, so that nothing saturates.
    return {add_pairs(acc.lo, _mm256_maddubs_epi16(_mm256_abs_epi8(weights.lo),
                                                   _mm256_sign_epi8(activations.lo, weights.lo))),
            add_pairs(acc.hi, _mm256_maddubs_epi16(_mm256_abs_epi8(weights.hi),
                                                   _mm256_sign_epi8(activations.hi, weights.hi)))};
  }
  static SOLI_INLINE I32 dot_u7(I32 acc, I32 weights, I32 activations) {
    return {add_pairs(acc.lo, _mm256_maddubs_epi16(weights.lo, activations.lo)),
            add_pairs(acc.hi, _mm256_maddubs_epi16(weights.hi, activations.hi))};
  }
#endif
  static SOLI_INLINE I32 dot_i16(I32 acc, I32 a, I32 b) {
    return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(a.lo, b.lo)),
            _mm256_add_epi32(acc.hi, _mm256_madd_epi16(a.hi, b.hi))};
  }
  static SOLI_INLINE F32 dot_bf16(F32 acc, I32 a, I32 b) {
    const I32 high = set1_i(static_cast<int32_t>(0xffff0000U));
    const F32 sum = fma(without_denormals(as_f32(and_i(a, high))), without_denormals(as_f32(and_i(b, high))),
                        without_denormals(acc));
    return without_denormals(fma(without_denormals(as_f32(shift_left(a, 16))),
                                 without_denormals(as_f32(shift_left(b, 16))), without_denormals(sum)));
  }

  static SOLI_INLINE F32 to_f32(I32 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
  static SOLI_INLINE I32 to_i32(F32 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
  static SOLI_INLINE F32 as_f32(I32 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
  static SOLI_INLINE F32 load_f16(const void* p) {
    const auto* halves = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  static SOLI_INLINE F32 f32_of_f16(I32 a) {
    // Packing works within 128-bit halves: see store_i8.
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(a.lo, a.hi), 0xd8);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
  }
  static SOLI_INLINE void store_f16(void* p, F32 a) {
    auto* halves = static_cast<__m128i*>(p);
    _mm_storeu_si128(halves, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
  }

 private:
  /// The entries that the low four bits name, of eight each in low and high.
  static SOLI_INLINE __m256i lookup_i(__m256i low, __m256i high, __m256i indices) {
    const __m256 a = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, indices));
    const __m256 b = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, indices));
    const __m256 fourth = _mm256_castsi256_ps(_mm256_slli_epi32(indices, 28));
    return _mm256_castps_si256(_mm256_blendv_ps(a, b, fourth));
  }
  /// acc + the sums of neighbouring 16-bit numbers.
  static SOLI_INLINE __m256i add_pairs(__m256i acc, __m256i pairs) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  /// Zeros, with their sign, instead of denormals.
  static SOLI_INLINE F32 without_denormals(F32 a) {
    return {without_denormals(a.lo), without_denormals(a.hi)};
  }
  static SOLI_INLINE __m256 without_denormals(__m256 a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    const __m256 tiny = _mm256_cmp_ps(_mm256_andnot_ps(sign, a), _mm256_set1_ps(0x1p-126F), _CMP_LT_OQ);
    return _mm256_blendv_ps(a, _mm256_and_ps(a, sign), tiny);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
