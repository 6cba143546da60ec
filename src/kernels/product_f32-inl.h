// Weights dequantised exactly, times f32 activations: the reference of all weight types, and the only product
// of F32 and F16.
//
// Canonical arithmetic: sum = fma(weight, activation, sum) for each weight in ascending k.
//
// A type of single numbers has load(strip, k), the weights of element k; the others are decoded by their own
// product first.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

template <typename Type, bool kOf256 = Type::kBlockElements == kPanelElements>
struct IntegerProductOf {
  using Product = Q8Of32Product<Type>;
};
template <typename Type>
struct IntegerProductOf<Type, true> {
  using Product = Q8Of256Product<Type>;
};
/// The integer product of a weight type, by the size of its blocks.
template <typename Type>
using IntegerProduct = typename IntegerProductOf<Type>::Product;

/// What does not depend on the weight type.
struct F32Panels {
  using Row = const float*;
  struct Panel {
    float weights[kPanelElements * kStripRows];
  };

  template <int N, int T>
  static inline void add_panel(const Panel* panels, const Row* x, int64_t first, int64_t n_k, float* sums) {
    F32 acc[T][N];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) acc[t][s] = S::load(sums + (t * N + s) * kStripRows);
    }
    for (int64_t k = 0; k < n_k; ++k) {
      F32 weights[N];
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) weights[s] = S::load(panels[s].weights + k * kStripRows);
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const F32 activation = S::broadcast(x[t] + first + k);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) acc[t][s] = S::fma(weights[s], activation, acc[t][s]);
      }
    }
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) S::store(sums + (t * N + s) * kStripRows, acc[t][s]);
    }
  }
};

template <typename Type>
struct F32Product : F32Panels {
  using Weights = Type;
  static constexpr bool kSingleNumbers = requires { Type::kSingleNumbers; };
  static constexpr int kTileStrips = S::kTileStrips;
  static constexpr int kTileTokens = S::kTileTokens;
  static constexpr int kFewTokens = kSingleNumbers ? S::kFewTokens : 0;
  static constexpr int kFewTiles = 2;
  static constexpr int kFewStrips = kStreams;
  static constexpr int64_t kPrefetchBytes = kStreamPrefetchBytes;

  static inline void decode(const std::byte* packed, int64_t n_k, Panel& panel) {
    if constexpr (kSingleNumbers) {
      for (int64_t k = 0; k < n_k; ++k) S::store(panel.weights + k * kStripRows, Type::load(packed, k));
    } else {
      for (int64_t k = 0; k < n_k; k += Type::kBlockElements, packed += kPackedBlockBytes<Type>)
        IntegerProduct<Type>::dequantize(packed, panel.weights + k * kStripRows);
    }
  }

  template <int N, int T>
  static SOLI_INLINE void few(const StripGroup& strips, int64_t cols, const Row* x, F32 (*sums)[N]) {
    for (int64_t k = 0; k < cols; ++k) {
      F32 weights[N];
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) {
        prefetch(strips.ahead(s, packed_bytes_of<Type>(k) + kPrefetchBytes), kPackedBlockBytes<Type>);
        weights[s] = Type::load(strips.strip(s, 0), k);
      }
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const F32 activation = S::broadcast(x[t] + k);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) sums[t][s] = S::fma(weights[s], activation, sums[t][s]);
      }
    }
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
