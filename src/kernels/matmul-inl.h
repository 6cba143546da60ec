// Matrix multiplication, written once for all weight types and all forms of activations.
//
// A lane is an output row, so that no sum crosses lanes. Along k, both operands are cut into panels of 256;
// an output is one accumulator that takes its panels in ascending order, from zero. What a panel adds is the
// business of a Product (product_*-inl.h), whose header states the canonical arithmetic. How many strips and
// tokens share a pass, and whether weights are decoded into a panel first or on the way, is a matter of speed
// only: every way runs the same operations in the same order per output.
//
// A Product has
//   Row              pointer type of an activation row, whatever its form
//   Panel            kPanelElements decoded weights of a strip
//   decode           fills a Panel from packed blocks
//   add_panel<N, T>  adds N decoded panels times T tokens to sums [T][N][16]
//   few<T>           a whole strip times T tokens, decoding on the way
//   kFewTokens       the largest T of few; for up to two such tiles it is the faster way; 0: never

namespace soli::kernels::SOLI_ISA_NAMESPACE {

inline constexpr int kPanelElements = 256;
/// Tokens for which a strip is decoded once.
inline constexpr int kMaxPassTokens = 96;
/// How far ahead of a strip's reader its bytes are asked for: enough to hide the latency of memory.
inline constexpr int64_t kPrefetchBytes = 6144;

/// Asks for the lines of `n` bytes.
SOLI_INLINE void prefetch(const std::byte* bytes, int64_t n) {
  for (int64_t i = 0; i < n; i += 64) __builtin_prefetch(bytes + i);
}

/// The order in which a tile's weights are read: up to `end`, then on from `next`.
struct ReadOrder {
  const std::byte* end;
  const std::byte* next;

  /// What will be read kPrefetchBytes after `packed`.
  SOLI_INLINE const std::byte* ahead_of(const std::byte* packed) const {
    const std::byte* ahead = packed + kPrefetchBytes;
    return ahead < end ? ahead : next + (ahead - end);
  }
};

template <typename Type>
inline constexpr int64_t kPackedBlockBytes = int64_t{kStripRows} *
                                             static_cast<int64_t>(sizeof(typename Type::Block));

/// Bytes that n_k packed elements of a strip take.
template <typename Type>
SOLI_INLINE int64_t packed_bytes_of(int64_t n_k) {
  return n_k / Type::kBlockElements * kPackedBlockBytes<Type>;
}

SOLI_INLINE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/// The strip at `row` times T tokens from `first` on.
template <typename Product, int T>
inline void few_tokens(const MatmulTile& tile, const std::byte* strip, int64_t row, int64_t first,
                       const ReadOrder& order) {
  typename Product::Row x[T];
  F32 sums[T];
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) {
    x[t] = static_cast<typename Product::Row>(tile.x[first + t]);
    sums[t] = S::set1(0.0F);
  }
  Product::template few<T>(strip, tile.cols, x, order, sums);
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) store_up_to(tile.y[first + t] + row, sums[t], tile.n_rows - row);
}

/// The strip at `row` times the tokens from `first` on, in tiles of T and then of one smaller number.
template <typename Product, int T>
inline void strip_times_few(const MatmulTile& tile, const std::byte* strip, int64_t row, int64_t first,
                            const ReadOrder& order) {
  for (; first + T <= tile.n_tokens; first += T) few_tokens<Product, T>(tile, strip, row, first, order);
  if constexpr (T > 1) strip_times_few<Product, T - 1>(tile, strip, row, first, order);
}

/// Strip after strip, so that the weights are one stream from memory; a second tile of tokens finds the strip
/// in the caches.
template <typename Product>
inline void matmul_few(const MatmulTile& tile) {
  const int64_t strip_bytes = packed_bytes_of<typename Product::Weights>(tile.cols);
  const std::byte* strip = tile.strips;
  const std::byte* end = strip + (tile.n_rows + kStripRows - 1) / kStripRows * strip_bytes;
  const ReadOrder order{end, tile.next == nullptr ? end : tile.next};
  for (int64_t row = 0; row < tile.n_rows; row += kStripRows, strip += strip_bytes)
    strip_times_few<Product, Product::kFewTokens>(tile, strip, row, 0, order);
}

/// The tokens of one pass. A last odd one is computed twice.
template <typename Product>
struct Pass {
  static constexpr int kStrips = S::kTileStrips;
  static constexpr int64_t kTokenSums = kStrips * kStripRows;

  typename Product::Row x[kMaxPassTokens];
  int64_t n_tokens;
  alignas(64) float sums[kMaxPassTokens * kTokenSums];
  alignas(64) typename Product::Panel panels[kStrips];

  inline explicit Pass(const MatmulTile& tile) : n_tokens(tile.n_tokens) {
    for (int64_t t = 0; t < n_tokens; ++t) x[t] = static_cast<typename Product::Row>(tile.x[t]);
    if (n_tokens % 2 != 0) x[n_tokens] = x[n_tokens - 1];
  }

  /// All tokens from t on, in tiles of T and then of smaller even numbers.
  template <int T>
  inline void add_panels(int64_t k, int64_t n_k, int64_t t) {
    for (; t + T <= n_tokens + n_tokens % 2; t += T) {
      Product::template add_panel<kStrips, T>(panels, x + t, k, n_k, sums + t * kTokenSums);
    }
    if constexpr (T > 2) add_panels<T - 2>(k, n_k, t);
  }
};

/// Strips side by side, each panel of them decoded once for all tokens.
template <typename Product>
inline void matmul_many(const MatmulTile& tile) {
  using Weights = typename Product::Weights;
  constexpr int kStrips = S::kTileStrips;
  static_assert(S::kTileTokens % 2 == 0 && kMaxPassTokens % 2 == 0);
  Pass<Product> pass(tile);
  const int64_t n_strips = (tile.n_rows + kStripRows - 1) / kStripRows;
  const int64_t strip_bytes = packed_bytes_of<Weights>(tile.cols);
  for (int64_t first = 0; first < n_strips; first += kStrips) {
    __builtin_memset(
        pass.sums, 0,
        static_cast<unsigned long>((tile.n_tokens + 1) / 2 * 2 * pass.kTokenSums) * sizeof(float));
    for (int64_t k = 0; k < tile.cols; k += kPanelElements) {
      const int64_t n_k = min_of(tile.cols - k, kPanelElements);
      for (int s = 0; s < kStrips; ++s) {  // past the last strip, it is computed again
        const std::byte* strip = tile.strips + min_of(first + s, n_strips - 1) * strip_bytes;
        int64_t ahead = packed_bytes_of<Weights>(k) + kPrefetchBytes;
        if (ahead >= strip_bytes) ahead += (kStrips - 1) * strip_bytes;  // on to the strips after these
        prefetch(strip + ahead, packed_bytes_of<Weights>(n_k));
        Product::decode(strip + packed_bytes_of<Weights>(k), n_k, pass.panels[s]);
      }
      pass.template add_panels<S::kTileTokens>(k, n_k, 0);
    }
    for (int64_t t = 0; t < tile.n_tokens; ++t) {
      for (int64_t s = 0; s < kStrips && first + s < n_strips; ++s) {
        const int64_t row = (first + s) * kStripRows;
        const float* sums = pass.sums + t * pass.kTokenSums + s * kStripRows;
        store_up_to(tile.y[t] + row, S::load(sums), tile.n_rows - row);
      }
    }
  }
}

template <typename Product>
inline void matmul(const MatmulTile& tile) {
  const int64_t n_passes = (tile.n_tokens + kMaxPassTokens - 1) / kMaxPassTokens;
  for (int64_t pass = 0; pass < n_passes; ++pass) {  // of about equal numbers of tokens
    const int64_t begin = tile.n_tokens * pass / n_passes;
    MatmulTile part = tile;
    part.x += begin;
    part.y += begin;
    part.n_tokens = tile.n_tokens * (pass + 1) / n_passes - begin;
    if constexpr (Product::kFewTokens > 0) {
      if (part.n_tokens <= 2 * Product::kFewTokens) {
        matmul_few<Product>(part);
        continue;
      }
    }
    matmul_many<Product>(part);
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
