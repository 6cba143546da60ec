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
//   kTileStrips, kTileTokens   N, and the largest T, of add_panel
//   few<N, T>        N whole strips times T tokens, to sums [T][N], decoding on the way
//   kFewTokens       the largest T of few; 0: never
//   kFewTiles        up to so many tiles of kFewTokens it is the faster way
//   kFewStrips       the largest N of few, a power of two
//   kPrefetchBytes   how far ahead of its reader few asks for each strip's bytes: enough to hide the latency

namespace soli::kernels::SOLI_ISA_NAMESPACE {

inline constexpr int kPanelElements = 256;
/// Tokens for which a strip is decoded once.
inline constexpr int kMaxPassTokens = 96;
/// Strips that products with little to do for each line read side by side: one stream alone gets two thirds
/// of what the memory gives.
inline constexpr int kStreams = 4;
inline constexpr int64_t kStreamPrefetchBytes = 3072;

/// Asks for the lines of `n` bytes.
SOLI_INLINE void prefetch(const std::byte* bytes, int64_t n) {
  for (int64_t i = 0; i < n; i += 64) __builtin_prefetch(bytes + i);
}

template <typename Type>
inline constexpr int64_t kPackedBlockBytes = int64_t{kStripRows} *
                                             static_cast<int64_t>(sizeof(typename Type::Block));

/// Bytes that n_k packed elements of a strip take.
template <typename Type>
constexpr int64_t packed_bytes_of(int64_t n_k) {
  return n_k / Type::kBlockElements * kPackedBlockBytes<Type>;
}

SOLI_INLINE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/// Strips side by side, of which each is read as a stream of its own.
struct StripGroup {
  const std::byte* first;
  int64_t strip_bytes;
  const std::byte* next;  // the first strip that is read after these

  SOLI_INLINE const std::byte* strip(int s, int64_t offset) const { return first + s * strip_bytes + offset; }
  /// What will be read when strip s is through to `offset`, which may lie beyond its end.
  SOLI_INLINE const std::byte* ahead(int s, int64_t offset) const {
    return (offset < strip_bytes ? first + offset : next + (offset - strip_bytes)) + s * strip_bytes;
  }
};

/// A tile that few<N, T> works through.
struct FewTile {
  const MatmulTile& tile;
  int64_t strip_bytes;
  int64_t n_strips;

  template <int N>
  StripGroup group(int64_t strip) const {
    const std::byte* first = tile.strips + strip * strip_bytes;
    const bool last = strip + N >= n_strips && tile.next != nullptr;
    return {first, strip_bytes, last ? tile.next : first + N * strip_bytes};
  }
};

template <typename Product, int N, int T>
inline void strips_times_tokens(const FewTile& few, int64_t strip, int64_t first) {
  typename Product::Row x[T];
  F32 sums[T][N];
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) {
    x[t] = static_cast<typename Product::Row>(few.tile.x[first + t]);
    SOLI_UNROLL
    for (int s = 0; s < N; ++s) sums[t][s] = S::set1(0.0F);
  }
  Product::template few<N, T>(few.group<N>(strip), few.tile.cols, x, sums);
  for (int s = 0; s < N; ++s) {
    const int64_t row = (strip + s) * kStripRows;
    for (int t = 0; t < T; ++t) store_up_to(few.tile.y[first + t] + row, sums[t][s], few.tile.n_rows - row);
  }
}

/// Strips [strip, end) times T tokens, N side by side and then smaller powers of two.
template <typename Product, int N, int T>
inline void group_times_tokens(const FewTile& few, int64_t strip, int64_t end, int64_t first) {
  for (; strip + N <= end; strip += N) strips_times_tokens<Product, N, T>(few, strip, first);
  if constexpr (N > 1) group_times_tokens<Product, N / 2, T>(few, strip, end, first);
}

/// The largest power of two, N at most, whose sums for T tokens fit the registers.
template <int N, int T>
constexpr int strips_beside() {
  if constexpr (N == 1 || N * T <= S::kAccumulators)
    return N;
  else
    return strips_beside<N / 2, T>();
}

/// The tile of tokens to try after T. Not 7, of which GCC 12 makes slow code.
constexpr int fewer_tokens(int t) { return t == 8 ? 6 : t - 1; }

/// Strips [strip, end) times the tokens from `first` on, in tiles of T and then of smaller numbers.
template <typename Product, int T>
inline void group_times_few(const FewTile& few, int64_t strip, int64_t end, int64_t first) {
  for (; first + T <= few.tile.n_tokens; first += T)
    group_times_tokens<Product, strips_beside<Product::kFewStrips, T>(), T>(few, strip, end, first);
  if constexpr (T > 1) group_times_few<Product, fewer_tokens(T)>(few, strip, end, first);
}

/// Group after group of strips; a second tile of tokens finds the group in the caches.
template <typename Product>
inline void matmul_few(const MatmulTile& tile) {
  const int64_t n_strips = (tile.n_rows + kStripRows - 1) / kStripRows;
  const FewTile few{tile, packed_bytes_of<typename Product::Weights>(tile.cols), n_strips};
  for (int64_t strip = 0; strip < n_strips; strip += Product::kFewStrips)
    group_times_few<Product, Product::kFewTokens>(few, strip, min_of(strip + Product::kFewStrips, n_strips),
                                                  0);
}

/// The tokens of one pass over the strips.
template <typename Product>
struct Pass {
  static constexpr int kStrips = Product::kTileStrips;
  static constexpr int64_t kTokenSums = kStrips * kStripRows;
  static constexpr int64_t kPanelBytes = packed_bytes_of<typename Product::Weights>(kPanelElements);

  typename Product::Row x[kMaxPassTokens];
  int64_t n_tokens;
  int64_t panel_bytes_per_token;
  const std::byte* next[kStrips];  // the panels after those at work
  alignas(64) float sums[kMaxPassTokens * kTokenSums];
  alignas(64) typename Product::Panel panels[kStrips];

  inline explicit Pass(const MatmulTile& tile)
      : n_tokens(tile.n_tokens), panel_bytes_per_token((kPanelBytes + tile.n_tokens - 1) / tile.n_tokens) {
    for (int64_t t = 0; t < n_tokens; ++t) x[t] = static_cast<typename Product::Row>(tile.x[t]);
  }

  /// Asks for the part of the next panels that falls to tokens [t, t + n). All at once would be more than the
  /// core can have under way, and then it would wait.
  SOLI_INLINE void prefetch_next(int64_t t, int64_t n) {
    const int64_t begin = t * panel_bytes_per_token / 64 * 64;
    const int64_t end = min_of((t + n) * panel_bytes_per_token / 64 * 64, kPanelBytes);
    for (int s = 0; s < kStrips; ++s) prefetch(next[s] + begin, end - begin);
  }

  /// All tokens from t on, in tiles of T and then of about half as many.
  template <int T>
  inline void add_panels(int64_t k, int64_t n_k, int64_t t) {
    for (; t + T <= n_tokens; t += T) {
      prefetch_next(t, T);
      Product::template add_panel<kStrips, T>(panels, x + t, k, n_k, sums + t * kTokenSums);
    }
    if constexpr (T > 1) add_panels<(T + 1) / 2>(k, n_k, t);
  }
};

/// The strips of a tile; past the last one, it is computed again.
template <typename Product>
struct Strips {
  const MatmulTile& tile;
  const int64_t n = (tile.n_rows + kStripRows - 1) / kStripRows;
  const int64_t bytes = packed_bytes_of<typename Product::Weights>(tile.cols);

  SOLI_INLINE const std::byte* panel(int64_t strip, int64_t k) const {
    return tile.strips + min_of(strip, n - 1) * bytes + packed_bytes_of<typename Product::Weights>(k);
  }
  /// What is read when strip s of those from `first` on, kTileStrips side by side, is through to k.
  SOLI_INLINE const std::byte* after(int64_t first, int s, int64_t k) const {
    if (k < tile.cols) return panel(first + s, k);
    const int64_t next = first + Product::kTileStrips;
    return (tile.next == nullptr || next < n ? tile.strips + next * bytes : tile.next) + s * bytes;
  }
};

/// Strips side by side, each panel of them decoded once for all tokens.
template <typename Product>
inline void matmul_many(const MatmulTile& tile) {
  constexpr int kStrips = Product::kTileStrips;
  Pass<Product> pass(tile);
  const Strips<Product> strips{tile};
  for (int64_t first = 0; first < strips.n; first += kStrips) {
    __builtin_memset(pass.sums, 0,
                     static_cast<unsigned long>(tile.n_tokens * pass.kTokenSums) * sizeof(float));
    for (int64_t k = 0; k < tile.cols; k += kPanelElements) {
      const int64_t n_k = min_of(tile.cols - k, kPanelElements);
      for (int s = 0; s < kStrips; ++s) {
        Product::decode(strips.panel(first + s, k), n_k, pass.panels[s]);
        pass.next[s] = strips.after(first, s, k + n_k);
      }
      pass.template add_panels<Product::kTileTokens>(k, n_k, 0);
    }
    for (int64_t t = 0; t < tile.n_tokens; ++t) {
      for (int64_t s = 0; s < kStrips && first + s < strips.n; ++s) {
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
      if (part.n_tokens <= Product::kFewTiles * Product::kFewTokens) {
        matmul_few<Product>(part);
        continue;
      }
    }
    matmul_many<Product>(part);
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
