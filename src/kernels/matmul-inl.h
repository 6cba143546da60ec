// Matrix multiplication with f32 activations, written once for all weight types.
//
// Canonical f32 arithmetic: a weight is dequantised exactly as the type's oracle does, and each output is one
// accumulator that takes one fused multiply-add per weight in ascending k, from zero. A lane is an output
// row, so no sum crosses lanes, and an accumulator that rests in y between two panels of k keeps its bits.
// How many tokens share a pass, and whether their activations are copied together first, is a matter of speed
// only.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// Weights along k that are held dequantised at a time: 16 KiB, which stay in the first-level cache for all
/// tokens.
inline constexpr int kPanelElements = 256;
/// Tokens whose activations are copied together for one panel of k.
inline constexpr int kPackedTokens = 64;

/// A strip's weights for some k, and where its outputs go.
struct Panel {
  const std::byte* weights;  // [n_k][16] as Weights::load reads them
  int64_t k;                 // the first of the panel
  int64_t n_k;
  int64_t row;     // offset of the strip's outputs in y
  int64_t n_rows;  // rows left from there on
};

/// Activations where the caller has them.
template <int T>
struct TokenRows {
  const float* rows[T];

  SOLI_INLINE TokenRows(const float* const* x, int64_t k) {
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) rows[t] = x[t] + k;
  }
  SOLI_INLINE float at(int64_t k, int t) const { return rows[t][k]; }
};

/// Activations copied to [k][T]: one stream, whatever the distance of the rows in memory.
template <int T>
struct TokenPanel {
  const float* panel;

  SOLI_INLINE float at(int64_t k, int t) const { return panel[k * T + t]; }
};

/// T accumulators over one panel. Weights::load gives the 16 rows' weights of one k.
template <typename Weights, int T, typename Tokens>
SOLI_INLINE void panel_tile(const Panel& panel, const Tokens& tokens, float* const* y) {
  F32 sums[T];
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) {
    sums[t] = panel.k == 0 ? S::set1(0.0F) : load_up_to(y[t] + panel.row, panel.n_rows, 0.0F);
  }
  for (int64_t k = 0; k < panel.n_k; ++k) {
    const F32 weight = Weights::load(panel.weights, k);
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) sums[t] = S::fma(weight, S::set1(tokens.at(k, t)), sums[t]);
  }
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) store_up_to(y[t] + panel.row, sums[t], panel.n_rows);
}

/// n tokens from their rows, in tiles of T and then of smaller powers of two.
template <typename Weights, int T>
inline void panel_few(const Panel& panel, const float* const* x, float* const* y, int64_t n) {
  int64_t t = 0;
  for (; t + T <= n; t += T) panel_tile<Weights, T>(panel, TokenRows<T>(x + t, panel.k), y + t);
  if constexpr (T > 1) panel_few<Weights, T / 2>(panel, x + t, y + t, n - t);
}

/// All tokens over one panel; the first n_packed of them, whole tiles, from `packed`.
template <typename Weights>
inline void panel_tokens(const Panel& panel, const MatmulTileF32& tile, const float* packed,
                         int64_t n_packed) {
  constexpr int kTile = S::kTokenTile;
  int64_t t = 0;
  for (; t < n_packed; t += kTile) {
    const TokenPanel<kTile> tokens{packed + t * kPanelElements};
    panel_tile<Weights, kTile>(panel, tokens, tile.y + t);
  }
  panel_few<Weights, kTile>(panel, tile.x + t, tile.y + t, tile.n_tokens - t);
}

/// Copies n_k activations of n_tokens (whole tiles) to [tile][k][kTokenTile].
inline void pack_tokens(const float* const* x, int64_t n_tokens, int64_t k, int64_t n_k, float* packed) {
  constexpr int kTile = S::kTokenTile;
  for (int64_t t = 0; t < n_tokens; ++t) {
    const float* from = x[t] + k;
    float* to = packed + t / kTile * kTile * kPanelElements + t % kTile;
    for (int64_t i = 0; i < n_k; ++i) to[i * kTile] = from[i];
  }
}

/// A panel of dequantised weights, [k][16].
struct F32Panel {
  static SOLI_INLINE F32 load(const std::byte* panel, int64_t k) { return S::load(panel + k * 64); }
};

/// One panel: types whose elements are single numbers are used where they lie, the others are decoded first.
template <typename Type>
inline void strip_panel(const MatmulTileF32& tile, int64_t row, int64_t k, const float* packed,
                        int64_t n_packed) {
  constexpr int64_t kPackedBytes = int64_t{kStripRows} * static_cast<int64_t>(sizeof(typename Type::Block));
  const int64_t blocks_before = (row / kStripRows * tile.cols + k) / Type::kBlockElements;
  const std::byte* weights = tile.strips + blocks_before * kPackedBytes;
  const int64_t n_k = tile.cols - k < kPanelElements ? tile.cols - k : kPanelElements;
  if constexpr (Type::kBlockElements == 1) {
    panel_tokens<Type>({weights, k, n_k, row, tile.n_rows - row}, tile, packed, n_packed);
  } else {
    alignas(64) float panel[kPanelElements * kStripRows];
    for (int64_t i = 0; i < n_k; i += Type::kBlockElements) {
      decode_block<Type>(weights, panel + i * kStripRows);
      weights += kPackedBytes;
    }
    panel_tokens<F32Panel>({reinterpret_cast<const std::byte*>(panel), k, n_k, row, tile.n_rows - row}, tile,
                           packed, n_packed);
  }
}

/// Few tokens: strip after strip, so that the weights are one stream from memory.
template <typename Type>
inline void matmul_few(const MatmulTileF32& tile) {
  for (int64_t row = 0; row < tile.n_rows; row += kStripRows) {
    for (int64_t k = 0; k < tile.cols; k += kPanelElements) strip_panel<Type>(tile, row, k, nullptr, 0);
  }
}

/// Many tokens: their activations are copied together, one panel of k at a time, for all strips.
template <typename Type>
inline void matmul_many(const MatmulTileF32& tile) {
  alignas(64) float packed[kPackedTokens * kPanelElements];
  const int64_t n_packed = tile.n_tokens / S::kTokenTile * S::kTokenTile;
  for (int64_t k = 0; k < tile.cols; k += kPanelElements) {
    pack_tokens(tile.x, n_packed, k, tile.cols - k < kPanelElements ? tile.cols - k : kPanelElements, packed);
    for (int64_t row = 0; row < tile.n_rows; row += kStripRows)
      strip_panel<Type>(tile, row, k, packed, n_packed);
  }
}

template <typename Type>
inline void matmul_f32(const MatmulTileF32& tile) {
  for (int64_t t = 0; t < tile.n_tokens; t += kPackedTokens) {
    MatmulTileF32 part = tile;
    part.x += t;
    part.y += t;
    part.n_tokens = tile.n_tokens - t < kPackedTokens ? tile.n_tokens - t : kPackedTokens;
    if (part.n_tokens <= S::kTokenTile) {
      matmul_few<Type>(part);
    } else {
      matmul_many<Type>(part);
    }
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
