#pragma once

#include <cstdint>
#include <span>

#include "base/matrix.h"
#include "ops/context.h"

namespace soli {

enum class KvType { kF32, kF16 };

constexpr int64_t bytes_of(KvType type) { return type == KvType::kF32 ? 4 : 2; }

/// Positions per KV page. A page is one attention block, so that a kernel sees one contiguous run of keys.
inline constexpr int64_t kKvPagePositions = kernels::kAttentionBlockKeys;

/// Shape of the keys and values of one layer.
struct KvShape {
  KvType type = KvType::kF16;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;   // of keys
  int64_t value_dim = 0;  // of values

  /// One layer's part of a page: keys [n_kv_heads][kKvPagePositions / 16][head_dim][16], packed so that
  /// neighbouring positions are the lanes of a vector, then values [n_kv_heads][kKvPagePositions][value_dim].
  int64_t layer_page_bytes() const {
    return n_kv_heads * kKvPagePositions * (head_dim + value_dim) * bytes_of(type);
  }
};

/// One row's place in its sequence, and the pages of that sequence: positions [0, position] are visible. Rows
/// of one sequence share one array of pages, by which they are known; they are fastest side by side.
struct AttentionRow {
  int64_t position;
  std::span<std::byte* const>
      pages;  // page p holds positions [p * kKvPagePositions, (p + 1) * kKvPagePositions)
};

struct AttentionParams {
  KvShape shape;
  int64_t layer_offset = 0;           // bytes from the start of a page to this layer's part
  int64_t n_heads = 0;                // query heads; a multiple of shape.n_kv_heads
  float scale = 1;                    // 1 / sqrt(head_dim) in most families
  int64_t window = 0;                 // a query sees the last so many positions, its own among them; 0: all
  std::span<const float> sinks = {};  // [n_heads] a logit beside those of the keys; empty: none

  /// The first position that a query at `position` sees.
  int64_t first_key(int64_t position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
};

/// Causal attention of every row over positions [0, row.position] of its own sequence, or the last `window`
/// of them: q is [rows][n_heads * head_dim], out is [rows][n_heads * value_dim]. Keys are taken in blocks cut
/// at absolute multiples of kAttentionBlockKeys, in ascending order, with an online softmax: no matrix of
/// context size exists, and the bits of a row depend on neither its batch, nor its chunk, nor the number of
/// threads. Neighbouring rows of a sequence and heads of a group share what is read.
void attention(OpContext& context, const AttentionParams& params, std::span<const AttentionRow> rows,
               MatrixView<const float> q, MatrixView<float> out);

}  // namespace soli
