// Attention of one query position over one block of keys (Milakov, Gimelshein 2018; Dao et al. 2022).
// A score is a sum over the head's dimensions in 16 lanes, folded by the fixed tree; an output element is one
// accumulator over ascending keys. How many heads and keys share a pass changes neither.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// Heads that share one load of a key or value.
inline constexpr int kHeadTile = 4;

/// scores[h][key] = scale * q_h . k_key for H heads and K keys from `key` on.
template <int H, int K, typename Kv>
SOLI_INLINE void score_tile(const AttentionBlock<Kv>& block, int head, int64_t key,
                            float (*scores)[kAttentionBlockKeys]) {
  F32 sums[H][K];
  SOLI_UNROLL
  for (int h = 0; h < H; ++h) {
    SOLI_UNROLL
    for (int j = 0; j < K; ++j) sums[h][j] = S::set1(0.0F);
  }
  const float* q = block.q + head * block.q_stride;
  const Kv* k = block.k + key * block.head_dim;
  for (int64_t d = 0; d < block.head_dim; d += kLanes) {
    const int64_t left = block.head_dim - d;
    F32 keys[K];
    SOLI_UNROLL
    for (int j = 0; j < K; ++j) keys[j] = load_up_to(k + j * block.head_dim + d, left, 0.0F);
    SOLI_UNROLL
    for (int h = 0; h < H; ++h) {
      const F32 query = load_up_to(q + h * block.q_stride + d, left, 0.0F);
      SOLI_UNROLL
      for (int j = 0; j < K; ++j) sums[h][j] = S::fma(query, keys[j], sums[h][j]);
    }
  }
  SOLI_UNROLL
  for (int h = 0; h < H; ++h) {
    SOLI_UNROLL
    for (int j = 0; j < K; ++j) scores[h][key + j] = S::reduce_add(sums[h][j]) * block.scale;
  }
}

/// Turns a head's scores into exp(score - new maximum), and returns the factor exp(old maximum - new maximum)
/// that rescales what came before. Scores beyond n_keys are -infinity.
template <typename Kv>
SOLI_INLINE float softmax_step(const AttentionBlock<Kv>& block, int head, float* scores) {
  F32 maxima = S::set1(block.m[head]);
  for (int64_t i = 0; i < kAttentionBlockKeys; i += kLanes) maxima = S::max(maxima, S::load(scores + i));
  const float maximum = S::reduce_max(maxima);
  F32 sums = S::set1(0.0F);
  for (int64_t i = 0; i < kAttentionBlockKeys; i += kLanes) {
    const F32 p = exp(S::sub(S::load(scores + i), S::set1(maximum)));
    S::store(scores + i, p);
    sums = S::add(sums, p);
  }
  float factors[kLanes];
  S::store(factors, exp(S::set1(block.m[head] - maximum)));
  block.l[head] = block.l[head] * factors[0] + S::reduce_add(sums);
  block.m[head] = maximum;
  return factors[0];
}

/// o_h = o_h * factor_h + sum over keys of scores[h][key] * v_key, for H heads.
template <int H, typename Kv>
SOLI_INLINE void value_tile(const AttentionBlock<Kv>& block, int head, const float* factors,
                            const float (*scores)[kAttentionBlockKeys]) {
  for (int64_t d = 0; d < block.value_dim; d += kLanes) {
    const int64_t left = block.value_dim - d;
    F32 sums[H];
    SOLI_UNROLL
    for (int h = 0; h < H; ++h) {
      sums[h] =
          S::mul(load_up_to(block.o + (head + h) * block.value_dim + d, left, 0.0F), S::set1(factors[h]));
    }
    for (int64_t key = 0; key < block.n_keys; ++key) {
      const F32 value = load_up_to(block.v + key * block.value_dim + d, left, 0.0F);
      SOLI_UNROLL
      for (int h = 0; h < H; ++h) sums[h] = S::fma(S::set1(scores[h][key]), value, sums[h]);
    }
    SOLI_UNROLL
    for (int h = 0; h < H; ++h) store_up_to(block.o + (head + h) * block.value_dim + d, sums[h], left);
  }
}

template <int H, typename Kv>
inline void attend_heads(const AttentionBlock<Kv>& block, int head) {
  float scores[H][kAttentionBlockKeys];
  for (int h = 0; h < H; ++h) {
    for (int64_t i = 0; i < kAttentionBlockKeys; i += kLanes) S::store(scores[h] + i, S::set1(-kInfinity));
  }
  int64_t key = 0;
  for (; key + 2 <= block.n_keys; key += 2) score_tile<H, 2>(block, head, key, scores);
  if (key < block.n_keys) score_tile<H, 1>(block, head, key, scores);
  float factors[H];
  for (int h = 0; h < H; ++h) factors[h] = softmax_step(block, head + h, scores[h]);
  value_tile<H>(block, head, factors, scores);
}

template <typename Kv>
inline void attention(const AttentionBlock<Kv>& block) {
  int head = 0;
  for (; head + kHeadTile <= block.n_heads; head += kHeadTile) attend_heads<kHeadTile>(block, head);
  for (; head < block.n_heads; ++head) attend_heads<1>(block, head);
}

inline void attention_f32(const AttentionBlock<float>& block) { attention(block); }
inline void attention_f16(const AttentionBlock<half>& block) { attention(block); }

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
