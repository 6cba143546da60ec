#pragma once

#include <cstdint>
#include <vector>

#include "reference/attention.h"
#include "reference/tensor_file.h"

namespace soli::reference {

/// [positions][heads][elements].
struct QueriesKeysValues {
  std::vector<std::vector<Vector>> queries;
  std::vector<std::vector<Vector>> keys;
  std::vector<std::vector<Vector>> values;
};

/// Heads of an MLA layer, with the keys and values of every head decompressed from the latent: nothing is
/// absorbed into queries or outputs, unlike in an engine. Both layouts of files: attn_k_b and attn_v_b, or
/// the older attn_kv_b.
QueriesKeysValues latent_heads(const TensorFile& file, const AttentionSpec& spec, int64_t layer,
                               const std::vector<Vector>& rows);

}  // namespace soli::reference
