#include "ops/kv_page.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace soli {
namespace {

using kernels::half;
using kernels::kStripRows;

/// Writes x [n] to every `step`-th number from `to` on.
template <typename T>
void scatter(const T* x, int64_t n, int64_t step, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i * step] = x[i];
}

/// Writes a key [n] to its lane of a strip [n][kStripRows].
void store_key(const kernels::KernelTable& kernels, KvType type, const float* x, int64_t n, std::byte* lane) {
  if (type == KvType::kF32) return scatter(x, n, kStripRows, reinterpret_cast<float*>(lane));
  std::array<half, 64> part;
  constexpr auto kPart = static_cast<int64_t>(part.size());
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t n_part = std::min(kPart, n - i);
    kernels.f32_to_f16(x + i, n_part, part.data());
    scatter(part.data(), n_part, kStripRows, reinterpret_cast<half*>(lane) + i * kStripRows);
  }
}

void store_value(const kernels::KernelTable& kernels, KvType type, const float* x, int64_t n, std::byte* to) {
  if (type == KvType::kF16) {
    kernels.f32_to_f16(x, n, reinterpret_cast<half*>(to));
  } else {
    std::memcpy(to, x, static_cast<size_t>(n) * sizeof(float));
  }
}

}  // namespace

int64_t key_offset(const AttentionParams& params, int64_t kv_head) {
  const KvShape& shape = params.shape;
  return params.layer_offset + kv_head * kKvPagePositions * shape.head_dim * bytes_of(shape.type);
}

int64_t value_offset(const AttentionParams& params, int64_t kv_head) {
  const KvShape& shape = params.shape;
  const int64_t keys = shape.n_kv_heads * kKvPagePositions * shape.head_dim;
  return params.layer_offset + (keys + kv_head * kKvPagePositions * shape.value_dim) * bytes_of(shape.type);
}

void store_head(const kernels::KernelTable& kernels, const AttentionParams& params, const AttentionRow& row,
                int64_t kv_head, const float* k, const float* v) {
  const KvShape& shape = params.shape;
  std::byte* page = row.pages[static_cast<size_t>(row.position / kKvPagePositions)];
  const int64_t slot = row.position % kKvPagePositions;
  const int64_t key = slot / kStripRows * kStripRows * shape.head_dim + slot % kStripRows;
  store_key(kernels, shape.type, k, shape.head_dim,
            page + key_offset(params, kv_head) + key * bytes_of(shape.type));
  store_value(kernels, shape.type, v, shape.value_dim,
              page + value_offset(params, kv_head) + slot * shape.value_dim * bytes_of(shape.type));
}

void check_rows(const AttentionParams& params, std::span<const AttentionRow> rows) {
  const KvShape& shape = params.shape;
  SOLI_CHECK(shape.n_kv_heads > 0 && shape.head_dim > 0 && shape.value_dim > 0);
  for (const AttentionRow& row : rows) {
    SOLI_CHECK(row.position >= 0 && row.position / kKvPagePositions < static_cast<int64_t>(row.pages.size()),
               "position {} with {} pages", row.position, row.pages.size());
  }
}

}  // namespace soli
