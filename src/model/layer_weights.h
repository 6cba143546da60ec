#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/matmul.h"

namespace soli {

/// The three matrices of a routed expert.
enum class ExpertMatrix { kGate, kUp, kDown };
inline constexpr int kExpertMatrices = 3;

/// Weights of one layer that every token uses. Routed experts live in an ExpertStore. Absent ones are empty.
struct LayerWeights {
  std::span<const float> attention_norm;       // [hidden]
  std::span<const float> attention_norm_bias;  // [hidden]
  std::span<const float> q_norm;               // [head_dim] or [n_heads * head_dim]
  std::span<const float> k_norm;               // [head_dim] or [n_kv_heads * head_dim]
  std::span<const float> ffn_norm;             // [hidden]
  std::span<const float> ffn_norm_bias;        // [hidden]
  std::span<const float> sinks;                // [n_heads] logits beside those of the keys
  Linear q;                                    // [n_heads * head_dim][hidden]
  Linear k;                                    // [n_kv_heads * head_dim][hidden]
  Linear v;                                    // [n_kv_heads * value_dim][hidden]
  Linear o;                                    // [hidden][n_heads * value_dim, as projected]
  // Latent attention, in place of k and v, and of q where the query has a latent vector too.
  Linear query_down;                         // [latent_query_rank][hidden]
  std::span<const float> query_latent_norm;  // [latent_query_rank]
  Linear query_up;                           // [n_heads * latent_key_dim][latent_query_rank]
  Linear latent_down;                        // [latent_rank + rope_dims][hidden]
  std::span<const float> latent_norm;        // [latent_rank]
  std::vector<Linear> key_up;             // per head [latent_rank][latent_key_dim - rope_dims]: folds queries
  std::vector<Linear> value_up;           // per head [latent_value_dim][latent_rank]
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
  std::span<const float> output_norm_bias;  // [hidden]
  Linear output;                            // [vocab][hidden]; empty: tied to the embedding
  // Divisors of the RoPE frequencies, [rope_dims / 2]: for any context, or for short and for long ones.
  std::span<const float> rope_frequencies;
  std::span<const float> rope_short_frequencies;
  std::span<const float> rope_long_frequencies;
};

}  // namespace soli
