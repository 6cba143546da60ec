#pragma once

#include <cstdint>
#include <span>

#include "ops/matmul.h"

namespace soli {

/// The three matrices of a routed expert.
enum class ExpertMatrix { kGate, kUp, kDown };
inline constexpr int kExpertMatrices = 3;

/// Weights of one layer that every token uses. Routed experts live in an ExpertStore. Absent ones are empty.
struct LayerWeights {
  std::span<const float> attention_norm;  // [hidden]
  std::span<const float> q_norm;          // [head_dim] or [n_heads * head_dim]
  std::span<const float> k_norm;          // [head_dim] or [n_kv_heads * head_dim]
  std::span<const float> ffn_norm;        // [hidden]
  Linear q;                               // [n_heads * head_dim][hidden]
  Linear k;                               // [n_kv_heads * head_dim][hidden]
  Linear v;                               // [n_kv_heads * value_dim][hidden]
  Linear o;                               // [hidden][n_heads * value_dim]
  Linear ffn_gate;                        // [ffn_width][hidden]
  Linear ffn_up;                          // [ffn_width][hidden]
  Linear ffn_down;                        // [hidden][ffn_width]
  Linear router;                          // [n_experts][hidden]
  std::span<const float> selection_bias;  // [n_experts]: chooses, never weighs
  Linear shared_router;                   // [1][hidden]: logit of the gate on the shared expert's output
  Linear shared_gate;                     // [shared_width][hidden]
  Linear shared_up;                       // [shared_width][hidden]
  Linear shared_down;                     // [hidden][shared_width]
};

/// Weights outside the layers.
struct GlobalWeights {
  Linear token_embedding;                   // [vocab][hidden]: row t is the embedding of token t
  std::span<const float> output_norm;       // [hidden]
  Linear output;                            // [vocab][hidden]; empty: tied to the embedding
  std::span<const float> rope_frequencies;  // [rope_dims / 2] divisors of the RoPE frequencies
};

}  // namespace soli
