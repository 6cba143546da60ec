#pragma once

// Causal attention over whole sequences: every score of every pair of positions, then the mask.

#include <cstdint>
#include <vector>

#include "reference/family_rules.h"
#include "reference/rope.h"
#include "reference/tensor_file.h"

namespace soli::reference {

struct AttentionSpec {
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;   // of queries and keys
  int64_t value_dim = 0;  // of values
  int64_t n_rotated = 0;
  int64_t latent_rank = 0;  // of keys and values together (DeepSeek-AI 2024, MLA); 0: there is no latent
  double score_scale = 0;
  double epsilon = 0;
  int64_t window = 0;  // positions that a query sees, itself included, on layers with even index; 0: all
  bool norm_after_rope = false;
  Rope rope;
};

AttentionSpec attention_spec(const TensorFile& file, const FamilyRules& rules, int64_t context_length);

/// Outputs of a layer's attention block, output projection included, [positions][hidden]; `rows` are its
/// normalised inputs.
std::vector<Vector> attention(const TensorFile& file, const AttentionSpec& spec, int64_t layer,
                              const std::vector<Vector>& rows);

}  // namespace soli::reference
