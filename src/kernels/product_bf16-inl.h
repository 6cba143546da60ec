// BF16 weights times activations rounded to bfloat16.
//
// Canonical arithmetic, for each pair of elements (2i, 2i + 1) in ascending i, where denormal operands and
// results count as 0 (S::dot_bf16):
//   sum = fma(weight 2i + 1, activation 2i + 1, sum), then sum = fma(weight 2i, activation 2i, sum)

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Bf16Product {
  using Weights = Bf16Weights;
  using Row = const uint16_t*;
  static constexpr int kTileStrips = S::kTileStrips;
  static constexpr int kTileTokens = S::kTileTokens;
  static constexpr int kFewTokens = S::kFewTokens;
  static constexpr int kFewTiles = 2;
  static constexpr int kFewStrips = kStreams;
  static constexpr int64_t kPrefetchBytes = kStreamPrefetchBytes;

  struct Panel {
    int32_t pairs[kPanelElements / 2 * kStripRows];
  };

  static inline void decode(const std::byte* packed, int64_t n_k, Panel& panel) {
    __builtin_memcpy(panel.pairs, packed, static_cast<unsigned long>(packed_bytes_of<Bf16Weights>(n_k)));
  }

  template <int N, int T>
  static inline void add_panel(const Panel* panels, const Row* x, int64_t first, int64_t n_k, float* sums) {
    F32 acc[T][N];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) acc[t][s] = S::load(sums + (t * N + s) * kStripRows);
    }
    for (int64_t i = 0; i < n_k / 2; ++i) {
      I32 weights[N];
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) weights[s] = S::load_i(panels[s].pairs + i * kStripRows);
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 activations = S::broadcast_i(x[t] + first + 2 * i);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) acc[t][s] = S::dot_bf16(acc[t][s], weights[s], activations);
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
    for (int64_t i = 0; i < cols / 2; ++i) {
      I32 weights[N];
      SOLI_UNROLL
      for (int s = 0; s < N; ++s) {
        prefetch(strips.ahead(s, i * 64 + kPrefetchBytes), 64);
        weights[s] = S::load_i(strips.strip(s, i * 64));
      }
      SOLI_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32 activations = S::broadcast_i(x[t] + 2 * i);
        SOLI_UNROLL
        for (int s = 0; s < N; ++s) sums[t][s] = S::dot_bf16(sums[t][s], weights[s], activations);
      }
    }
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
