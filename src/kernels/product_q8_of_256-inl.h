// Integer dots of weight blocks of 256, whose 8 or 16 parts have small integer scales, with 8-bit activations
// that have one scale per 256 (Q8Of256Block).
//
// Canonical arithmetic, for each block of 256 in ascending order; the two integers are exact in 32 bits (the
// largest, of Q6_K, is below 2.7e8):
//   dots   = sum over parts of scale_p * (sum of number * activation)
//   value  = float(dots) * d
//   with minima: value = fma(float(sum over parts of minimum_p * sum of activations), -d_minimum, value)
//   sum    = fma(value, d_activation, sum)
//
// A weight type for this has, beside its numbers (numbers-inl.h): kParts, bytes(packed, i) for dword i of 64
// of a packed block or eight(packed, i) for dwords 2i and 2i + 1, and Scales(packed) with d, scale(p) and, if
// kMinima, d_minimum and minimum(p).

namespace soli::kernels::SOLI_ISA_NAMESPACE {

template <typename Type>
struct Q8Of256Product {
  static_assert(Type::kBlockElements == kPanelElements);
  using Weights = Type;
  using Row = const Q8Of256Block*;
  using Scales = typename Type::Scales;
  static constexpr int kTileStrips = S::kTwofoldTileStrips;
  static constexpr int kTileTokens = S::kTwofoldTileTokens;
  static constexpr int kFewTokens = few_tokens_of<Type>();
  static constexpr int kFewTiles = kFewTokens == S::kFewTokens && kFewTokens < 8 ? 2 : 1;
  static constexpr int kFewStrips = 1;  // one of them has many dots to do for each line that it reads
  static constexpr int64_t kPrefetchBytes = 6144;
  static constexpr int kParts = Type::kParts;
  static constexpr int kPartDwords = 64 / kParts;
  /// Whether the sums of the activations matter: for minima, or for the offset of bytes.
  static constexpr bool kSums = Type::kMinima || Type::kByteOffset != 0;

  struct Panel {
    int32_t bytes[kPanelElements / 4 * kStripRows];
    int32_t scales[kParts * kStripRows];
    int32_t pairs[kParts / 2 * kStripRows];
    float d[kStripRows];
    float d_minimum[kStripRows];
  };

  static inline void decode(const std::byte* packed, int64_t, Panel& panel) {
    const Scales scales(packed);
    SOLI_UNROLL
    for (int p = 0; p < kParts; ++p) S::store_i(panel.scales + p * kStripRows, scales.scale(p));
    if constexpr (kSums) {
      SOLI_UNROLL
      for (int j = 0; j < kParts / 2; ++j) S::store_i(panel.pairs + j * kStripRows, pair_of(scales, j));
    }
    S::store(panel.d, scales.d);
    if constexpr (Type::kMinima) S::store(panel.d_minimum, scales.d_minimum);
    Dwords<Type> dwords{packed};
    SOLI_UNROLL
    for (int outer = 0; outer < 8; ++outer) {
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        S::store_i(panel.bytes + (outer * 8 + i) * kStripRows, dwords.next(outer * 8 + i));
      }
    }
  }

  template <int N, int T>
  static inline void add_panel(const Panel* panels, const Row* rows, int64_t k, int64_t, float* sums) {
    Row x[T];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) x[t] = rows[t] + k / kPanelElements;
    I32 dots[T][N];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) dots[t][s] = S::set1_i(0);
    }
    for (int p = 0; p < kParts; ++p) add_part<N, T>(panels, x, p, dots);
    SOLI_UNROLL
    for (int s = 0; s < N; ++s) {
      I32 pairs[kParts / 2];
      if constexpr (kSums) {
        SOLI_UNROLL
        for (int j = 0; j < kParts / 2; ++j) pairs[j] = S::load_i(panels[s].pairs + j * kStripRows);
      }
      const F32 d = S::load(panels[s].d);
      const F32 d_minimum = S::load(panels[s].d_minimum);
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        float* sum = sums + (t * N + s) * kStripRows;
        S::store(sum, fold(dots[t][s], weighted_sums(pairs, *x[t]), d, d_minimum, *x[t], S::load(sum)));
      }
    }
  }

  template <int N, int T>
  static SOLI_INLINE void few(const StripGroup& strips, int64_t cols, const Row* rows, F32 (*sums)[N]) {
    static_assert(N == 1);
    constexpr int64_t kBytes = kPackedBlockBytes<Type>;
    for (int64_t block = 0; block < cols / kPanelElements; ++block) {
      // At once: spread over the block, these cost a fifth of the bandwidth.
      prefetch(strips.ahead(0, block * kBytes + kPrefetchBytes), kBytes);
      const std::byte* packed = strips.strip(0, block * kBytes);
      const Scales scales(packed);
      Dwords<Type> dwords{packed};
      I32 dots[T];
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) dots[t] = S::set1_i(0);
      SOLI_UNROLL
      for (int p = 0; p < kParts; ++p) {
        I32 part[T];
        SOLI_UNROLL
        for (int t = 0; t < T; ++t) part[t] = S::set1_i(0);
        SOLI_UNROLL
        for (int i = 0; i < kPartDwords; ++i) {
          const int dword = p * kPartDwords + i;
          const I32 bytes = dwords.next(dword);
          SOLI_UNROLL
          for (int t = 0; t < T; ++t) {
            part[t] = Type::dot(part[t], bytes, S::broadcast_i(rows[t][block].values + dword * 4));
          }
        }
        const I32 scale = scales.scale(p);
        SOLI_UNROLL
        for (int t = 0; t < T; ++t) dots[t] = S::add_i(dots[t], S::mul_i(part[t], scale));
      }
      I32 pairs[kParts / 2];
      if constexpr (kSums) {
        SOLI_UNROLL
        for (int j = 0; j < kParts / 2; ++j) pairs[j] = pair_of(scales, j);
      }
      F32 d_minimum = scales.d;
      if constexpr (Type::kMinima) d_minimum = scales.d_minimum;
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const Q8Of256Block& x = rows[t][block];
        sums[t][0] = fold(dots[t], weighted_sums(pairs, x), scales.d, d_minimum, x, sums[t][0]);
      }
    }
  }

  /// The exact values of a packed block: [256][16].
  static SOLI_INLINE void dequantize(const std::byte* packed, float* out) {
    const Scales scales(packed);
    Dwords<Type> dwords{packed};
    for (int p = 0; p < kParts; ++p) {
      const F32 scale = S::mul(scales.d, S::to_f32(scales.scale(p)));
      for (int i = p * kPartDwords; i < (p + 1) * kPartDwords; ++i) {
        const I32 bytes = dwords.next(i);
        SOLI_UNROLL
        for (int j = 0; j < 4; ++j) {
          F32 value = S::mul(scale, S::to_f32(Type::number(bytes, j)));
          if constexpr (Type::kMinima)
            value = S::sub(value, S::mul(scales.d_minimum, S::to_f32(scales.minimum(p))));
          S::store(out + (i * 4 + j) * kStripRows, value);
        }
      }
    }
  }

 private:
  /// dots += scale * (dot of part p).
  template <int N, int T>
  static SOLI_INLINE void add_part(const Panel* panels, const Row* x, int p, I32 (*dots)[N]) {
    I32 part[T][N];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) part[t][s] = S::set1_i(0);
    }
    SOLI_UNROLL
    for (int i = 0; i < kPartDwords; ++i) {
      I32 bytes[N];
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) bytes[s] = S::load_i(panels[s].bytes + (p * kPartDwords + i) * kStripRows);
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 four = S::broadcast_i(x[t]->values + (p * kPartDwords + i) * 4);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) part[t][s] = Type::dot(part[t][s], bytes[s], four);
      }
    }
    SOLI_UNROLL
    for (int s = 0; s < N; ++s) {
      const I32 scale = S::load_i(panels[s].scales + p * kStripRows);
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) dots[t][s] = S::add_i(dots[t][s], S::mul_i(part[t][s], scale));
    }
  }

  /// What parts 2j and 2j + 1 multiply the sums of their activations with, as two 16-bit numbers.
  static SOLI_INLINE I32 pair_of(const Scales& scales, int j) {
    const I32 low_half = S::set1_i(0xffff);
    if constexpr (Type::kMinima) {
      return S::or_i(S::and_i(scales.minimum(2 * j), low_half), S::shift_left(scales.minimum(2 * j + 1), 16));
    } else {
      return S::or_i(S::and_i(scales.scale(2 * j), low_half), S::shift_left(scales.scale(2 * j + 1), 16));
    }
  }
  static SOLI_INLINE I32 weighted_sums(const I32* pairs, const Q8Of256Block& x) {
    I32 weighted = S::set1_i(0);
    if constexpr (kSums) {
      const int16_t* sums = kParts == 8 ? x.sums_of_32 : x.sums_of_16;
      SOLI_UNROLL
      for (int j = 0; j < kParts / 2; ++j)
        weighted = S::dot_i16(weighted, pairs[j], S::broadcast_i(sums + 2 * j));
    }
    return weighted;
  }
  static SOLI_INLINE F32 fold(I32 dots, I32 weighted_sums, F32 d, F32 d_minimum, const Q8Of256Block& x,
                              F32 sum) {
    if constexpr (Type::kByteOffset != 0)
      dots = S::sub_i(dots, multiply_by<Type::kByteOffset>(weighted_sums));
    F32 value = S::mul(S::to_f32(dots), d);
    if constexpr (Type::kMinima)
      value = S::fma(S::to_f32(weighted_sums), S::sub(S::set1(0.0F), d_minimum), value);
    return S::fma(value, S::broadcast(&x.scale), sum);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
