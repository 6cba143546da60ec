// Integer dots of weight blocks with a scale for each part of 32 or 16 elements, with 8-bit activations that
// have one scale per 32 (Q8Of32Block).
//
// Canonical arithmetic, for each part in ascending order:
//   dot = sum of (number * activation), exact in 32 bits
//   sum = fma(float(dot), scale * d_activation, sum), the product of scales rounded once
//   with minima: sum = fma(minimum, d_activation * float(-sum of the activations), sum)
//
// A weight type for this has, beside its numbers (numbers-inl.h): bytes(packed, i) for dword i of a packed
// block, scale(packed), and minimum(packed) if kMinima. One whose blocks are longer than a part, without
// minima, has scale(packed, part) instead, and kPartElements if that is not 32.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

template <typename Type>
constexpr int part_elements_of() {
  if constexpr (requires { Type::kPartElements; })
    return Type::kPartElements;
  else
    return kQ8BlockElements;
}

template <typename Type>
struct Q8Of32Product {
  using Weights = Type;
  using Row = const Q8Of32Block*;
  static constexpr int kTileStrips = S::kTileStrips;
  static constexpr int kTileTokens = S::kTileTokens;
  static constexpr int kFewTokens = few_tokens_of<Type>();
  static constexpr int kFewTiles = kFewTokens == S::kFewTokens ? 2 : 1;
  static constexpr int kFewStrips = kStreams;
  static constexpr int64_t kPrefetchBytes = kStreamPrefetchBytes;
  static constexpr int kPartElements = part_elements_of<Type>();
  static constexpr int kPartDwords = kPartElements / 4;
  static constexpr int kBlockParts = Type::kBlockElements / kPartElements;
  static constexpr int kPanelParts = kPanelElements / kPartElements;
  /// Activations have sums of 32; those of shorter parts are taken along with the dots.
  static constexpr bool kOwnSums = kPartElements < kQ8BlockElements && Type::kByteOffset != 0;
  static_assert(kPanelElements % Type::kBlockElements == 0 && Type::kBlockElements % kPartElements == 0);
  static_assert(kQ8BlockElements % kPartElements == 0 && (!Type::kMinima || kBlockParts == 1));

  struct Panel {
    int32_t bytes[kPanelElements / 4 * kStripRows];
    float scales[kPanelParts * kStripRows];
    float minima[Type::kMinima ? kPanelParts * kStripRows : kStripRows];
  };

  static inline void decode(const std::byte* packed, int64_t n_k, Panel& panel) {
    constexpr int kDwords = Type::kBlockElements / 4;
    for (int64_t b = 0; b < n_k / Type::kBlockElements; ++b, packed += kPackedBlockBytes<Type>) {
      SOLI_UNROLL
      for (int p = 0; p < kBlockParts; ++p)
        S::store(panel.scales + (b * kBlockParts + p) * kStripRows, scale_of(packed, p));
      if constexpr (Type::kMinima) S::store(panel.minima + b * kStripRows, Type::minimum(packed));
      SOLI_UNROLL
      for (int outer = 0; outer < kDwords; outer += 8) {
        SOLI_UNROLL
        for (int i = outer; i < outer + 8; ++i)
          S::store_i(panel.bytes + (b * kDwords + i) * kStripRows, Type::bytes(packed, i));
      }
    }
  }

  template <int N, int T>
  static inline void add_panel(const Panel* panels, const Row* x, int64_t k, int64_t n_k, float* sums) {
    const Q8Of32Block* blocks[T];
    F32 acc[T][N];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      blocks[t] = x[t] + k / kPanelElements;
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) acc[t][s] = S::load(sums + (t * N + s) * kStripRows);
    }
    for (int64_t p = 0; p < n_k / kPartElements; ++p) {
      const int64_t b = p * kPartElements / kQ8BlockElements;
      I32 dots[T][N];
      I32 own_sums[T];
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 start = start_of(*blocks[t], b);
        own_sums[t] = S::set1_i(0);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) dots[t][s] = start;
      }
      SOLI_UNROLL
      for (int i = 0; i < kPartDwords; ++i) {
        I32 bytes[N];
        SOLI_UNROLL
        for (int s = 0; s < N; ++s)
          bytes[s] = S::load_i(panels[s].bytes + (p * kPartDwords + i) * kStripRows);
        SOLI_UNROLL
        for (int t = 0; t < T; ++t) {
          const I32 four = S::broadcast_i(blocks[t]->values + p * kPartElements + i * 4);
          own_sums[t] = add_own_sum(own_sums[t], four);
          SOLI_UNROLL
          for (int s = 0; s < N; ++s) dots[t][s] = Type::dot(dots[t][s], bytes[s], four);
        }
      }
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) {
        const F32 scale = S::load(panels[s].scales + p * kStripRows);
        const F32 minimum = S::load(panels[s].minima + (Type::kMinima ? p * kStripRows : 0));
        SOLI_UNROLL
        for (int t = 0; t < T; ++t) {
          const I32 dot = without(dots[t][s], own_sums[t]);
          acc[t][s] = fold(dot, scale, minimum, *blocks[t], b, acc[t][s]);
        }
      }
    }
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) S::store(sums + (t * N + s) * kStripRows, acc[t][s]);
    }
  }

  template <int N, int T>
  static SOLI_INLINE void few(const StripGroup& strips, int64_t cols, const Row* x, F32 (*sums)[N]) {
    constexpr int64_t kBytes = kPackedBlockBytes<Type>;
    for (int64_t block = 0; block < cols / Type::kBlockElements; ++block) {
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) prefetch(strips.ahead(s, block * kBytes + kPrefetchBytes), kBytes);
      for (int p = 0; p < kBlockParts; ++p) few_part<N, T>(strips, block, p, x, sums);
    }
  }

  /// The exact values of a packed block: [kBlockElements][16].
  static SOLI_INLINE void dequantize(const std::byte* packed, float* out) {
    for (int p = 0; p < kBlockParts; ++p) {
      const F32 scale = scale_of(packed, p);
      SOLI_UNROLL
      for (int i = 0; i < kPartDwords; ++i) {
        const int dword = p * kPartDwords + i;
        const I32 bytes = Type::bytes(packed, dword);
        SOLI_UNROLL
        for (int j = 0; j < 4; ++j) {
          F32 value = S::mul(scale, S::to_f32(Type::number(bytes, j)));
          if constexpr (Type::kMinima) value = S::sub(value, Type::minimum(packed));
          S::store(out + (dword * 4 + j) * kStripRows, value);
        }
      }
    }
  }

 private:
  /// Adds part p of a block of N strips.
  template <int N, int T>
  static SOLI_INLINE void few_part(const StripGroup& strips, int64_t block, int p, const Row* x,
                                   F32 (*sums)[N]) {
    const int64_t offset = block * kPackedBlockBytes<Type>;
    const int64_t k = block * Type::kBlockElements + p * kPartElements;
    const int64_t panel = k / kPanelElements;
    const int64_t b = k % kPanelElements / kQ8BlockElements;
    I32 dots[T][N];
    I32 own_sums[T];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      const I32 start = start_of(x[t][panel], b);
      own_sums[t] = S::set1_i(0);
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) dots[t][s] = start;
    }
    SOLI_UNROLL
    for (int i = 0; i < kPartDwords; ++i) {
      I32 bytes[N];
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) bytes[s] = Type::bytes(strips.strip(s, offset), p * kPartDwords + i);
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 four = S::broadcast_i(x[t][panel].values + k % kPanelElements + i * 4);
        own_sums[t] = add_own_sum(own_sums[t], four);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) dots[t][s] = Type::dot(dots[t][s], bytes[s], four);
      }
    }
    SOLI_UNROLL
    for (int s = 0; s < N; ++s) {
      const F32 scale = scale_of(strips.strip(s, offset), p);
      F32 minimum = scale;
      if constexpr (Type::kMinima) minimum = Type::minimum(strips.strip(s, offset));
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 dot = without(dots[t][s], own_sums[t]);
        sums[t][s] = fold(dot, scale, minimum, x[t][panel], b, sums[t][s]);
      }
    }
  }

  static SOLI_INLINE F32 scale_of(const std::byte* packed, int part) {
    if constexpr (kBlockParts == 1)
      return Type::scale(packed);
    else
      return Type::scale(packed, part);
  }
  /// What the dot of bytes starts from, so that it ends as the dot of numbers.
  static SOLI_INLINE I32 start_of(const Q8Of32Block& x, int64_t b) {
    if constexpr (Type::kByteOffset == 0 || kOwnSums) return S::set1_i(0);
    return multiply_by<Type::kByteOffset>(S::broadcast_i(x.negative_sums + b));
  }
  /// acc + kByteOffset * (sum of the four activations).
  static SOLI_INLINE I32 add_own_sum(I32 acc, I32 four) {
    if constexpr (kOwnSums)
      return Type::dot(acc, S::set1_i(Type::kByteOffset * 0x01010101), four);
    else
      return acc;
  }
  static SOLI_INLINE I32 without(I32 dot, I32 own_sum) {
    if constexpr (!kOwnSums) return dot;
    return S::sub_i(dot, own_sum);
  }
  static SOLI_INLINE F32 fold(I32 dot, F32 scale, F32 minimum, const Q8Of32Block& x, int64_t b, F32 sum) {
    const F32 d = S::broadcast(x.scales + b);
    sum = S::fma(S::to_f32(dot), S::mul(scale, d), sum);
    if constexpr (!Type::kMinima) return sum;
    return S::fma(minimum, S::mul(d, S::to_f32(S::broadcast_i(x.negative_sums + b))), sum);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
