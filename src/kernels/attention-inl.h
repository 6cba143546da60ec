// Attention of a tile of queries over the pages of one sequence, with an online softmax (Milakov, Gimelshein
// 2018; Dao et al. 2022).
//
// Canonical arithmetic, per query: a score is one accumulator that takes one fused multiply-add per
// dimension, ascending, from zero, and is then multiplied by the scale. Pages are blocks, in ascending order:
// maximum and sum of a block run in 16 lanes over its keys and are folded by the fixed tree. An output
// element is one accumulator, multiplied by the block's factor and then fed one fused multiply-add per
// visible key, ascending; at last it is multiplied by the reciprocal of the sum. A lane is a key, and then a
// dimension of the values. What lies beyond the query's keys has no part: such scores become -infinity, and
// such values are not multiplied, for their memory may hold anything. In a block that a query sees from the
// middle on, as with a sliding window, the keys before that take part with the score -infinity. A sink is a
// logit that is there before the first block, with no value (Xiao et al. 2023; gpt-oss).

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// What a tile keeps between blocks, by query; o is padded to whole vectors.
struct AttentionState {
  float* q;       // [kAttentionTileQueries][head_dim]
  float* o;       // [kAttentionTileQueries][padded value_dim]
  float* scores;  // [kAttentionTileQueries][kAttentionBlockKeys], then weights exp(score - maximum)
  int64_t o_stride;
  float m[kAttentionTileQueries];       // maximum so far
  float l[kAttentionTileQueries];       // sum of exp(score - m) so far
  float factor[kAttentionTileQueries];  // exp(old m - m) of the block at work
  int hidden[kAttentionTileQueries];    // first keys of the block at work that the query does not see
  int visible[kAttentionTileQueries];   // end of the keys of the block that it sees; 0: none
};

/// Rows of 16-lane vectors, such as the keys of a page by dimension: vector g of row i is at first + i * step
/// + g * stride.
template <typename Kv>
struct VectorRows {
  const Kv* first;
  int64_t step;
  int64_t stride;
};

/// sums[t][g] += x[t][i] * vector g of row i, over ascending rows i < n; `left` lanes of a vector exist.
template <int T, int G, bool kWhole, typename Kv>
SOLI_INLINE void add_products(F32 (&sums)[T][G], const float* x, int64_t x_stride, VectorRows<Kv> rows,
                              int64_t n, int64_t left) {
  for (int64_t i = 0; i < n; ++i) {
    F32 vectors[G];
    SOLI_UNROLL
    for (int g = 0; g < G; ++g) {
      const Kv* from = rows.first + i * rows.step + g * rows.stride;
      vectors[g] = kWhole ? load_full(from) : load_tail(from, left, 0.0F);
    }
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      const F32 factor = S::set1(x[t * x_stride + i]);
      SOLI_UNROLL
      for (int g = 0; g < G; ++g) sums[t][g] = S::fma(factor, vectors[g], sums[t][g]);
    }
  }
}

/// Scores of T queries from `query` on with the keys of strips [strip, n_strips), G strips at a time.
template <int T, int G, typename Kv>
SOLI_INLINE void score_strips(const AttentionTile& tile, const AttentionState& state, const Kv* keys,
                              int64_t query, int64_t strip, int64_t n_strips) {
  const int64_t strip_size = kLanes * tile.head_dim;
  for (; strip + G <= n_strips; strip += G) {
    F32 sums[T][G];
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      SOLI_UNROLL
      for (int g = 0; g < G; ++g) sums[t][g] = S::set1(0.0F);
    }
    add_products<T, G, true>(sums, state.q + query * tile.head_dim, tile.head_dim,
                             VectorRows<Kv>{keys + strip * strip_size, kLanes, strip_size}, tile.head_dim,
                             kLanes);
    SOLI_UNROLL
    for (int t = 0; t < T; ++t) {
      float* scores = state.scores + (query + t) * kAttentionBlockKeys + strip * kLanes;
      SOLI_UNROLL
      for (int g = 0; g < G; ++g) S::store(scores + g * kLanes, S::mul(sums[t][g], S::set1(tile.scale)));
    }
  }
  if constexpr (G > 1) score_strips<T, G / 2>(tile, state, keys, query, strip, n_strips);
}

/// Vectors that T queries take at a time.
template <int T>
inline constexpr int kVectorsBeside = S::kAccumulators / T < 4 ? S::kAccumulators / T : 4;

/// Scores of n queries from `query` on with the keys of a page that they see, in tiles of T and then of
/// smaller powers of two.
template <int T, typename Kv>
inline void score_queries(const AttentionTile& tile, const AttentionState& state, const Kv* keys,
                          int64_t query, int64_t n) {
  for (; n >= T; query += T, n -= T) {
    int most = 0;
    for (int t = 0; t < T; ++t) most = state.visible[query + t] > most ? state.visible[query + t] : most;
    score_strips<T, kVectorsBeside<T>>(tile, state, keys, query, 0, (most + kLanes - 1) / kLanes);
  }
  if constexpr (T > 1) score_queries<T / 2>(tile, state, keys, query, n);
}

/// Keys [first, last) of a page, of which a tile of queries takes the values.
template <typename Kv>
struct KeyRange {
  const Kv* values;  // of the page
  int64_t first;
  int64_t last;
};

/// o = o * factor + sum over the keys of weight * value, for T queries and G vectors from dimension d on.
template <int T, int G, bool kWhole, typename Kv>
SOLI_INLINE void mix_tile(const AttentionTile& tile, const AttentionState& state, KeyRange<Kv> keys,
                          int64_t query, const float* factors, int64_t d) {
  float* o = state.o + query * state.o_stride + d;
  F32 sums[T][G];
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) {
    SOLI_UNROLL
    for (int g = 0; g < G; ++g) {
      sums[t][g] = S::mul(S::load(o + t * state.o_stride + g * kLanes), S::set1(factors[t]));
    }
  }
  add_products<T, G, kWhole>(
      sums, state.scores + query * kAttentionBlockKeys + keys.first, kAttentionBlockKeys,
      VectorRows<Kv>{keys.values + keys.first * tile.value_dim + d, tile.value_dim, kLanes},
      keys.last - keys.first, tile.value_dim - d);
  SOLI_UNROLL
  for (int t = 0; t < T; ++t) {
    SOLI_UNROLL
    for (int g = 0; g < G; ++g) S::store(o + t * state.o_stride + g * kLanes, sums[t][g]);
  }
}

/// The same for all dimensions from d on, G vectors at a time and then smaller powers of two.
template <int T, int G, typename Kv>
SOLI_INLINE void mix_vectors(const AttentionTile& tile, const AttentionState& state, KeyRange<Kv> keys,
                             int64_t query, const float* factors, int64_t d) {
  for (; d + G * kLanes <= tile.value_dim; d += G * kLanes) {
    mix_tile<T, G, true>(tile, state, keys, query, factors, d);
  }
  if constexpr (G > 1) {
    mix_vectors<T, G / 2>(tile, state, keys, query, factors, d);
  } else if (d < tile.value_dim) {
    mix_tile<T, 1, false>(tile, state, keys, query, factors, d);
  }
}

/// Adds the values of a page to n queries from `query` on, in tiles of T and then of smaller powers of two.
template <int T, typename Kv>
inline void mix_queries(const AttentionTile& tile, const AttentionState& state, const Kv* values,
                        int64_t query, int64_t n) {
  constexpr float kAsItIs[] = {1.0F};
  for (; n >= T; query += T, n -= T) {
    int fewest = kAttentionBlockKeys;
    for (int t = 0; t < T; ++t) {
      fewest = state.visible[query + t] < fewest ? state.visible[query + t] : fewest;
    }
    mix_vectors<T, kVectorsBeside<T>>(tile, state, KeyRange<Kv>{values, 0, fewest}, query,
                                      state.factor + query, 0);
    for (int64_t t = query; T > 1 && t < query + T; ++t) {
      if (state.visible[t] == fewest) continue;
      mix_vectors<1, kVectorsBeside<1>>(tile, state, KeyRange<Kv>{values, fewest, state.visible[t]}, t,
                                        kAsItIs, 0);
    }
  }
  if constexpr (T > 1) mix_queries<T / 2>(tile, state, values, query, n);
}

/// Ends a query's scores at its last visible key with -infinity, hides those before its first one, and
/// returns the new maximum.
SOLI_INLINE float mask_and_maximum(const AttentionState& state, int64_t query) {
  float* scores = state.scores + query * kAttentionBlockKeys;
  const int n = state.visible[query];
  for (int i = 0; i < state.hidden[query]; ++i) scores[i] = -kInfinity;
  for (int i = n; i % kLanes != 0; ++i) scores[i] = -kInfinity;
  F32 maxima = S::set1(state.m[query]);
  for (int i = 0; i < n; i += kLanes) maxima = S::max(maxima, S::load(scores + i));
  return S::reduce_max(maxima);
}

/// One block of the online softmax of n queries from `query` on: scores become weights exp(score - new
/// maximum).
inline void softmax_block(AttentionState& state, int64_t query, int64_t n) {
  alignas(64) float maximum[kAttentionTileQueries];
  for (int64_t i = 0; i < n; ++i) maximum[i] = mask_and_maximum(state, query + i);
  for (int64_t i = 0; i < n; i += kLanes) {
    const F32 change =
        S::sub(load_up_to(state.m + query + i, n - i, 0.0F), load_up_to(maximum + i, n - i, 0.0F));
    store_up_to(state.factor + query + i, exp(change), n - i);
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = query + i;
    if (state.visible[at] == 0) {
      state.factor[at] = 1.0F;
      continue;
    }
    float* scores = state.scores + at * kAttentionBlockKeys;
    F32 sums = S::set1(0.0F);
    for (int key = 0; key < state.visible[at]; key += kLanes) {
      const F32 weights = exp(S::sub(S::load(scores + key), S::set1(maximum[i])));
      S::store(scores + key, weights);
      sums = S::add(sums, weights);
    }
    state.l[at] = state.l[at] * state.factor[at] + S::reduce_add(sums);
    state.m[at] = maximum[i];
  }
}

/// The state before the first block, with the queries copied together.
SOLI_INLINE AttentionState begin_attention(const AttentionTile& tile) {
  AttentionState state;
  state.o_stride = (tile.value_dim + kLanes - 1) / kLanes * kLanes;
  state.q = tile.workspace;
  state.o = state.q + kAttentionTileQueries * tile.head_dim;
  state.scores = state.o + kAttentionTileQueries * state.o_stride;
  for (int64_t i = 0; i < tile.n_queries; ++i) {
    __builtin_memcpy(state.q + i * tile.head_dim, tile.q[i],
                     static_cast<size_t>(tile.head_dim) * sizeof(float));
  }
  for (int64_t i = 0; i < tile.n_queries * state.o_stride; i += kLanes) S::store(state.o + i, S::set1(0.0F));
  for (int64_t i = 0; i < tile.n_queries; i += kLanes) {
    S::store(state.m + i, S::set1(-kInfinity));
    S::store(state.l + i, S::set1(0.0F));
  }
  for (int64_t i = 0; tile.sinks != nullptr && i < tile.n_queries; ++i) {
    state.m[i] = tile.sinks[i];
    state.l[i] = 1.0F;
  }
  return state;
}

/// Writes o / l.
SOLI_INLINE void finish_attention(const AttentionTile& tile, const AttentionState& state) {
  for (int64_t i = 0; i < tile.n_queries; ++i) {
    const F32 reciprocal = S::set1(1.0F / state.l[i]);
    for (int64_t d = 0; d < tile.value_dim; d += kLanes) {
      const F32 o = S::load(state.o + i * state.o_stride + d);
      store_up_to(tile.out[i] + d, S::mul(o, reciprocal), tile.value_dim - d);
    }
  }
}

/// Numbers of a page that the queries of a tile see: whole strips of keys, and values.
template <typename Kv>
struct PagePart {
  const Kv* keys;    // of the tile's first kv head
  const Kv* values;  // the same
  int64_t n_keys;

  PagePart(const AttentionTile& tile, int64_t page, int64_t n_keys_left)
      : keys(reinterpret_cast<const Kv*>(tile.pages[page] + tile.k_offset)),
        values(reinterpret_cast<const Kv*>(tile.pages[page] + tile.v_offset)),
        n_keys(n_keys_left < kAttentionBlockKeys ? n_keys_left : kAttentionBlockKeys) {}

  /// Asks for the numbers of one kv head. Runs of a few KiB are too short for the hardware to foresee; a
  /// page of one head is asked for while the one before is computed.
  void prefetch_keys(const AttentionTile& tile, int64_t kv_head) const {
    const Kv* first = keys + kv_head * kAttentionBlockKeys * tile.head_dim;
    prefetch(first, (n_keys + kLanes - 1) / kLanes * kLanes * tile.head_dim);
  }
  void prefetch_values(const AttentionTile& tile, int64_t kv_head) const {
    prefetch(values + kv_head * kAttentionBlockKeys * tile.value_dim, n_keys * tile.value_dim);
  }

 private:
  static void prefetch(const Kv* first, int64_t n) {
    constexpr int64_t kLine = 64 / sizeof(Kv);
    for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(first + i);
  }
};

/// A key's place in a page, or the end of the page that is nearer.
SOLI_INLINE int place_in_page(int64_t key, int64_t page) {
  const int64_t place = key - page * kAttentionBlockKeys;
  return static_cast<int>(place < 0 ? 0 : place < kAttentionBlockKeys ? place : kAttentionBlockKeys);
}

/// Sets which keys of a page each query sees.
SOLI_INLINE void find_visible(const AttentionTile& tile, AttentionState& state, int64_t page) {
  for (int64_t i = 0; i < tile.n_queries; ++i) {
    const int first = place_in_page(tile.first_keys[i], page);
    const int end = place_in_page(tile.n_keys[i], page);
    state.hidden[i] = first < end ? first : 0;
    state.visible[i] = first < end ? end : 0;
  }
}

template <typename Kv>
inline void attention(const AttentionTile& tile) {
  AttentionState state = begin_attention(tile);
  const int64_t n_beside = tile.n_queries / tile.n_kv_heads;
  int64_t first = tile.first_keys[0];
  int64_t end = tile.n_keys[0];
  for (int64_t i = 1; i < tile.n_queries; ++i) {
    first = tile.first_keys[i] < first ? tile.first_keys[i] : first;
    end = tile.n_keys[i] > end ? tile.n_keys[i] : end;
  }
  int64_t page = first / kAttentionBlockKeys;
  int64_t left = end - page * kAttentionBlockKeys;
  // All heads of a page before the next page: their numbers are one run of memory.
  for (; left > 0; ++page, left -= kAttentionBlockKeys) {
    const PagePart<Kv> part(tile, page, left);
    find_visible(tile, state, page);
    for (int64_t head = 0; head < tile.n_kv_heads; ++head) {
      const int64_t query = head * n_beside;
      part.prefetch_values(tile, head);
      score_queries<S::kQueryTile>(tile, state, part.keys + head * kAttentionBlockKeys * tile.head_dim, query,
                                   n_beside);
      softmax_block(state, query, n_beside);
      if (head + 1 < tile.n_kv_heads) {
        part.prefetch_keys(tile, head + 1);
      } else if (left > kAttentionBlockKeys) {
        PagePart<Kv>(tile, page + 1, left - kAttentionBlockKeys).prefetch_keys(tile, 0);
      }
      mix_queries<S::kQueryTile>(tile, state, part.values + head * kAttentionBlockKeys * tile.value_dim,
                                 query, n_beside);
    }
  }
  finish_attention(tile, state);
}

inline void attention_f32(const AttentionTile& tile) { attention<float>(tile); }
inline void attention_f16(const AttentionTile& tile) { attention<half>(tile); }

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
