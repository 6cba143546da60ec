// Matrix multiplication, written once for all weight types.
//
// Canonical f32 arithmetic: a weight is dequantised exactly as the type's oracle does, and each output is one
// accumulator that takes one fused multiply-add per weight in ascending k, from zero. A lane is an output
// row, so no sum crosses lanes, and an accumulator that rests in y between two blocks of k keeps its bits.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// Weights along k that are held dequantised at a time: 16 KiB, which stay in the first-level cache for all
/// tokens.
inline constexpr int kPanelElements = 256;

/// One token tile: T accumulators over n_k weights of 16 rows. Weights::load gives the 16 rows' weights of
/// one k.
template <typename Weights, int T>
inline void panel_tile(const std::byte* panel, int64_t n_k, const float* const* x, int64_t x_offset,
                       float* const* y, int64_t y_offset, int64_t n_rows, bool first) {
  F32 sums[T];
  const float* rows[T];
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) {
    rows[t] = x[t] + x_offset;
    sums[t] = first ? S::set1(0.0F) : load_up_to(y[t] + y_offset, n_rows, 0.0F);
  }
  for (int64_t k = 0; k < n_k; ++k) {
    const F32 weight = Weights::load(panel, k);
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) sums[t] = S::fma(weight, S::set1(rows[t][k]), sums[t]);
  }
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) store_up_to(y[t] + y_offset, sums[t], n_rows);
}

/// All tokens of the tile over one panel. The sizes of token tiles are chosen for speed only.
template <typename Weights>
inline void panel_tokens(const MatmulTileF32& tile, const std::byte* panel, int64_t n_k, int64_t k,
                         int64_t row) {
  const int64_t n_rows = tile.n_rows - row;
  int64_t t = 0;
  for (; t + S::kTokenTile <= tile.n_tokens; t += S::kTokenTile) {
    panel_tile<Weights, S::kTokenTile>(panel, n_k, tile.x + t, k, tile.y + t, row, n_rows, k == 0);
  }
  for (; t + 2 <= tile.n_tokens; t += 2) {
    panel_tile<Weights, 2>(panel, n_k, tile.x + t, k, tile.y + t, row, n_rows, k == 0);
  }
  if (t < tile.n_tokens) panel_tile<Weights, 1>(panel, n_k, tile.x + t, k, tile.y + t, row, n_rows, k == 0);
}

/// A panel of dequantised weights, [k][16].
struct F32Panel {
  static SOLI_INLINE F32 load(const std::byte* panel, int64_t k) { return S::load(panel + k * 64); }
};

/// Types whose elements are single numbers: the strip itself is the panel.
template <typename Type>
inline void matmul_direct(const MatmulTileF32& tile) {
  const int64_t bytes_per_k = int64_t{kStripRows} * static_cast<int64_t>(sizeof(typename Type::Block));
  for (int64_t row = 0; row < tile.n_rows; row += kStripRows) {
    const std::byte* strip = tile.strips + row / kStripRows * tile.cols * bytes_per_k;
    for (int64_t k = 0; k < tile.cols; k += kPanelElements) {
      const int64_t n_k = tile.cols - k < kPanelElements ? tile.cols - k : kPanelElements;
      panel_tokens<Type>(tile, strip + k * bytes_per_k, n_k, k, row);
    }
  }
}

/// Types of quantised blocks: Type::decode_block turns a packed block of 16 rows into [block_elements][16]
/// floats.
template <typename Type>
inline void matmul_decoded(const MatmulTileF32& tile) {
  alignas(64) float panel[kPanelElements * kStripRows];
  constexpr int64_t kPackedBytes = int64_t{kStripRows} * static_cast<int64_t>(sizeof(typename Type::Block));
  const std::byte* packed = tile.strips;
  for (int64_t row = 0; row < tile.n_rows; row += kStripRows) {
    for (int64_t k = 0; k < tile.cols; k += kPanelElements) {
      const int64_t n_k = tile.cols - k < kPanelElements ? tile.cols - k : kPanelElements;
      for (int64_t i = 0; i < n_k; i += Type::kBlockElements) {
        Type::decode_block(packed, panel + i * kStripRows);
        packed += kPackedBytes;
      }
      panel_tokens<F32Panel>(tile, reinterpret_cast<const std::byte*>(panel), n_k, k, row);
    }
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
