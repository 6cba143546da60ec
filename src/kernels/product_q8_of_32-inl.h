// Integer dots of weight blocks of 32 with 8-bit activations that have one scale per 32 (Q8Of32Block).
//
// Canonical arithmetic, for each block of 32 in ascending order:
//   dot = sum of (number * activation), exact in 32 bits
//   sum = fma(float(dot), scale * d_activation, sum), the product of scales rounded once
//   with minima: sum = fma(minimum, d_activation * float(-sum of the activations), sum)
//
// A weight type for this has, beside its numbers (numbers-inl.h): scale(packed), minimum(packed) if kMinima,
// and bytes(packed, i) for dword i of 8 of a packed block.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

template <typename Type>
struct Q8Of32Product {
  static_assert(Type::kBlockElements == kQ8BlockElements);
  using Weights = Type;
  using Row = const Q8Of32Block*;
  static constexpr int kTileStrips = S::kTileStrips;
  static constexpr int kTileTokens = S::kTileTokens;
  static constexpr int kFewTokens = S::kFewTokens;
  static constexpr int kFewTiles = 2;
  static constexpr int kFewStrips = kStreams;
  static constexpr int64_t kPrefetchBytes = kStreamPrefetchBytes;
  static constexpr int kBlocks = kPanelElements / kQ8BlockElements;

  struct Panel {
    int32_t bytes[kPanelElements / 4 * kStripRows];
    float scales[kBlocks * kStripRows];
    float minima[Type::kMinima ? kBlocks * kStripRows : kStripRows];
  };

  static inline void decode(const std::byte* packed, int64_t n_k, Panel& panel) {
    for (int64_t b = 0; b < n_k / kQ8BlockElements; ++b, packed += kPackedBlockBytes<Type>) {
      S::store(panel.scales + b * kStripRows, Type::scale(packed));
      if constexpr (Type::kMinima) S::store(panel.minima + b * kStripRows, Type::minimum(packed));
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) S::store_i(panel.bytes + (b * 8 + i) * kStripRows, Type::bytes(packed, i));
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
    for (int64_t b = 0; b < n_k / kQ8BlockElements; ++b) {
      I32 dots[T][N];
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 start = start_of(*blocks[t], b);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) dots[t][s] = start;
      }
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        I32 bytes[N];
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) bytes[s] = S::load_i(panels[s].bytes + (b * 8 + i) * kStripRows);
        SOLI_UNROLL
        for (int t = 0; t < T; ++t) {
          const I32 four = S::broadcast_i(blocks[t]->values + b * kQ8BlockElements + i * 4);
          SOLI_UNROLL
          for (int s = 0; s < N; ++s) dots[t][s] = Type::dot(dots[t][s], bytes[s], four);
        }
      }
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) {
        const F32 scale = S::load(panels[s].scales + b * kStripRows);
        const F32 minimum = S::load(panels[s].minima + (Type::kMinima ? b * kStripRows : 0));
        SOLI_UNROLL
        for (int t = 0; t < T; ++t) acc[t][s] = fold(dots[t][s], scale, minimum, *blocks[t], b, acc[t][s]);
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
    for (int64_t block = 0; block < cols / kQ8BlockElements; ++block) {
      const int64_t offset = block * kBytes;
      const int64_t b = block % kBlocks;
      I32 dots[T][N];
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) prefetch(strips.ahead(s, offset + kPrefetchBytes), kBytes);
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 start = start_of(x[t][block / kBlocks], b);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) dots[t][s] = start;
      }
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) {
        I32 bytes[N];
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) bytes[s] = Type::bytes(strips.strip(s, offset), i);
        SOLI_UNROLL
        for (int t = 0; t < T; ++t) {
          const I32 four = S::broadcast_i(x[t][block / kBlocks].values + b * kQ8BlockElements + i * 4);
          SOLI_UNROLL
          for (int s = 0; s < N; ++s) dots[t][s] = Type::dot(dots[t][s], bytes[s], four);
        }
      }
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) {
        const F32 scale = Type::scale(strips.strip(s, offset));
        F32 minimum = scale;
        if constexpr (Type::kMinima) minimum = Type::minimum(strips.strip(s, offset));
        SOLI_UNROLL
        for (int t = 0; t < T; ++t)
          sums[t][s] = fold(dots[t][s], scale, minimum, x[t][block / kBlocks], b, sums[t][s]);
      }
    }
  }

  /// The exact values of a packed block: [32][16].
  static SOLI_INLINE void dequantize(const std::byte* packed, float* out) {
    const F32 scale = Type::scale(packed);
    SOLI_UNROLL
    for (int i = 0; i < 8; ++i) {
      const I32 bytes = Type::bytes(packed, i);
      SOLI_UNROLL
      for (int j = 0; j < 4; ++j) {
        F32 value = S::mul(scale, S::to_f32(Type::number(bytes, j)));
        if constexpr (Type::kMinima) value = S::sub(value, Type::minimum(packed));
        S::store(out + (i * 4 + j) * kStripRows, value);
      }
    }
  }

 private:
  /// What the dot of bytes starts from, so that it ends as the dot of numbers.
  static SOLI_INLINE I32 start_of(const Q8Of32Block& x, int64_t b) {
    if constexpr (Type::kByteOffset == 0) return S::set1_i(0);
    return multiply_by<Type::kByteOffset>(S::broadcast_i(x.negative_sums + b));
  }
  static SOLI_INLINE F32 fold(I32 dot, F32 scale, F32 minimum, const Q8Of32Block& x, int64_t b, F32 sum) {
    const F32 d = S::broadcast(x.scales + b);
    sum = S::fma(S::to_f32(dot), S::mul(scale, d), sum);
    if constexpr (!Type::kMinima) return sum;
    return S::fma(minimum, S::mul(d, S::to_f32(S::broadcast_i(x.negative_sums + b))), sum);
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
