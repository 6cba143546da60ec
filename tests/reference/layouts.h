#pragma once

// Other ways in which files hold the same weights.

#include "support/gguf_rewrite.h"

namespace soli::reference {

/// attn_q, attn_k and attn_v (and their biases) as one attn_qkv, in layers that have them.
void fuse_qkv(GgufRewrite& file);
/// ffn_gate_exps and ffn_up_exps as one ffn_gate_up_exps, gate rows first within each expert.
void fuse_gate_and_up(GgufRewrite& file);
/// attn_k_b and attn_v_b as the older attn_kv_b, with the keys of that layout.
void join_latent_projections(GgufRewrite& file);

}  // namespace soli::reference
