// Matrix multiplication with 8-bit activations, written once for all weight types that have integer dots.
//
// Both operands are cut into parts of 32 along k, which is one block of the activations (Q8Row). A type
// unpacks one part of 16 rows into bytes and says how its dots become a sum: see apply() in quant/*-inl.h,
// which is the type's canonical arithmetic. Parts are taken in ascending order into one accumulator per
// output, from zero; the dots themselves are exact in 32 bits, so that their order is free.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// Elements of k whose activations are copied together for many tokens; a multiple of every block.
inline constexpr int kQ8PanelElements = 512;
inline constexpr int kQ8PanelParts = kQ8PanelElements / kQ8BlockElements;

/// Activations where the caller has them.
struct Q8Rows {
  const Q8Row* rows;
  int64_t first_part;

  SOLI_INLINE int32_t dword(int64_t part, int i, int t) const {
    int32_t four;
    __builtin_memcpy(&four, rows[t].values + (first_part + part) * kQ8BlockElements + i * 4, sizeof four);
    return four;
  }
  SOLI_INLINE Q8Part part(int64_t part, int t) const {
    return {rows[t].scales[first_part + part], rows[t].sums[first_part + part]};
  }
};

/// Activations copied to [part] { dwords [8][T], scales [T], sums [T] }: one stream for T tokens.
template <int T>
struct Q8Panel {
  static constexpr int kPartDwords = 10 * T;
  const int32_t* panel;

  SOLI_INLINE int32_t dword(int64_t part, int i, int t) const {
    return panel[part * kPartDwords + i * T + t];
  }
  SOLI_INLINE Q8Part part(int64_t part, int t) const {
    const int32_t* tail = panel + part * kPartDwords + 8 * T + t;
    float scale;
    __builtin_memcpy(&scale, tail, sizeof scale);
    return {scale, tail[T]};
  }
};

/// A strip's weights for some parts of k, and where its outputs go.
struct Q8Strip {
  const std::byte* packed;
  int64_t first_part;
  int64_t n_parts;
  int64_t row;
  int64_t n_rows;
};

/// T accumulators over some parts.
template <typename Type, int T, typename Tokens>
SOLI_INLINE void q8_tile(const Q8Strip& strip, const Tokens& tokens, float* const* y) {
  constexpr int kBlockParts = Type::kBlockElements / kQ8BlockElements;
  constexpr int64_t kPackedBytes = int64_t{kStripRows} * static_cast<int64_t>(sizeof(typename Type::Block));
  F32 sums[T];
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) {
    sums[t] = strip.first_part == 0 ? S::set1(0.0F) : load_up_to(y[t] + strip.row, strip.n_rows, 0.0F);
  }
  for (int64_t p = 0; p < strip.n_parts; ++p) {
    const typename Type::Part weights(strip.packed + p / kBlockParts * kPackedBytes,
                                      static_cast<int>(p % kBlockParts));
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      I32 activations[8];
      SOLI_UNROLL
      for (int i = 0; i < 8; ++i) activations[i] = S::set1_i(tokens.dword(p, i, t));
      sums[t] = weights.apply(activations, tokens.part(p, t), sums[t]);
    }
  }
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) store_up_to(y[t] + strip.row, sums[t], strip.n_rows);
}

/// n tokens from their rows, in tiles of T and then of smaller powers of two.
template <typename Type, int T>
inline void q8_few(const Q8Strip& strip, const Q8Row* x, float* const* y, int64_t n) {
  int64_t t = 0;
  for (; t + T <= n; t += T) q8_tile<Type, T>(strip, Q8Rows{x + t, strip.first_part}, y + t);
  if constexpr (T > 1) q8_few<Type, T / 2>(strip, x + t, y + t, n - t);
}

/// Copies some parts of n_tokens (whole tiles) to the form of Q8Panel, tile after tile.
inline void pack_q8_tokens(const Q8Row* x, int64_t n_tokens, int64_t first_part, int64_t n_parts,
                           int32_t* packed) {
  constexpr int kTile = S::kTokenTileQ8;
  for (int64_t t = 0; t < n_tokens; ++t) {
    int32_t* to = packed + t / kTile * kQ8PanelParts * Q8Panel<kTile>::kPartDwords + t % kTile;
    const Q8Rows from{x + t, first_part};
    for (int64_t p = 0; p < n_parts; ++p) {
      for (int i = 0; i < 8; ++i) to[i * kTile] = from.dword(p, i, 0);
      const Q8Part part = from.part(p, 0);
      __builtin_memcpy(to + 8 * kTile, &part.scale, sizeof part.scale);
      to[9 * kTile] = part.sum;
      to += Q8Panel<kTile>::kPartDwords;
    }
  }
}

/// Few tokens: strip after strip, so that the weights are one stream from memory.
template <typename Type>
inline void matmul_q8_few(const MatmulTileQ8& tile) {
  const int64_t strip_bytes = tile.cols / Type::kBlockElements * kStripRows * sizeof(typename Type::Block);
  const std::byte* packed = tile.strips;
  for (int64_t row = 0; row < tile.n_rows; row += kStripRows, packed += strip_bytes) {
    q8_few<Type, S::kTokenTileQ8>({packed, 0, tile.cols / kQ8BlockElements, row, tile.n_rows - row}, tile.x,
                                  tile.y, tile.n_tokens);
  }
}

/// Many tokens: their activations are copied together, one panel of k at a time, for all strips.
template <typename Type>
inline void matmul_q8_many(const MatmulTileQ8& tile) {
  constexpr int kTile = S::kTokenTileQ8;
  constexpr int kTileDwords = kQ8PanelParts * Q8Panel<kTile>::kPartDwords;
  constexpr int64_t kBlockBytes = int64_t{kStripRows} * static_cast<int64_t>(sizeof(typename Type::Block));
  alignas(64) int32_t packed[kPackedTokens / kTile * kTileDwords];
  const int64_t n_packed = tile.n_tokens / kTile * kTile;
  for (int64_t k = 0; k < tile.cols; k += kQ8PanelElements) {
    const int64_t n_parts =
        (tile.cols - k < kQ8PanelElements ? tile.cols - k : kQ8PanelElements) / kQ8BlockElements;
    pack_q8_tokens(tile.x, n_packed, k / kQ8BlockElements, n_parts, packed);
    for (int64_t row = 0; row < tile.n_rows; row += kStripRows) {
      const int64_t blocks_before = (row / kStripRows * tile.cols + k) / Type::kBlockElements;
      const Q8Strip strip{tile.strips + blocks_before * kBlockBytes, k / kQ8BlockElements, n_parts, row,
                          tile.n_rows - row};
      for (int64_t t = 0; t < n_packed; t += kTile) {
        q8_tile<Type, kTile>(strip, Q8Panel<kTile>{packed + t / kTile * kTileDwords}, tile.y + t);
      }
      q8_few<Type, kTile>(strip, tile.x + n_packed, tile.y + n_packed, tile.n_tokens - n_packed);
    }
  }
}

template <typename Type>
inline void matmul_q8(const MatmulTileQ8& tile) {
  for (int64_t t = 0; t < tile.n_tokens; t += kPackedTokens) {
    MatmulTileQ8 part = tile;
    part.x += t;
    part.y += t;
    part.n_tokens = tile.n_tokens - t < kPackedTokens ? tile.n_tokens - t : kPackedTokens;
    if (part.n_tokens <= S::kTokenTileQ8) {
      matmul_q8_few<Type>(part);
    } else {
      matmul_q8_many<Type>(part);
    }
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
