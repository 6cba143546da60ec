#pragma once

// Where keys and values lie in a page. For attention and what fills its pages.

#include <cstdint>
#include <span>

#include "ops/attention.h"

namespace soli {

/// Bytes from the start of a page to the keys, or values, of one kv head.
int64_t key_offset(const AttentionParams& params, int64_t kv_head);
int64_t value_offset(const AttentionParams& params, int64_t kv_head);

/// Writes one kv head's key [head_dim] and value [value_dim] of a row to its page.
void store_head(const kernels::KernelTable& kernels, const AttentionParams& params, const AttentionRow& row,
                int64_t kv_head, const float* k, const float* v);

/// Holds rows to the pages that they have.
void check_rows(const AttentionParams& params, std::span<const AttentionRow> rows);

}  // namespace soli
