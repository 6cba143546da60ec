#pragma once

// What families are put together from: each function adds the keys and tensors of one trait. A family that
// needs one more trait than there is adds it here, under a name that says what it is.

#include <string>

#include "model/family.h"

namespace soli {

/// A pre-norm decoder with RMSNorm, grouped-query attention, RoPE and a SwiGLU feed-forward: the trunk that
/// families vary. Has the common keys, the global tensors, attention, norms and the dense feed-forward.
Family decoder_family(std::string architecture);

/// Requires a bias on q, k and v.
void require_qkv_bias(Family& family);
/// Requires a bias on the output projection of attention.
void require_attention_output_bias(Family& family);
/// Adds attn_q_norm and attn_k_norm: weights for each head, or for the whole projected row.
enum class QkNorm { kPerHead, kWholeRow };
void add_qk_norm(Family& family, QkNorm over, bool required = true);
/// Keys and values from one latent vector per position, in place of k and v (see ModelSpec::latent_rank); in
/// the layout with attn_k_b and attn_v_b, or the older one with both in attn_kv_b.
void use_latent_attention(Family& family);
/// A sliding window in all layers but the last of each `period`.
void add_sliding_window(Family& family, int64_t period);
/// A sink per head.
void add_sinks(Family& family);
/// Norms before attention, before the feed-forward and before the output head have a bias, and the head
/// itself.
void add_norm_and_head_biases(Family& family);
/// The norm before the feed-forward goes by another name.
void rename_ffn_norm(Family& family, std::string pattern);
/// Keys of YaRN.
void add_yarn(Family& family);

/// Adds the experts' keys, the router and the expert tensors.
void add_experts(Family& family, RouterSpec router);
/// The file may say gating, renormalisation and scale; what it leaves out is the family's own.
void add_router_keys(Family& family);
/// A bias per expert that chooses and never weighs.
void add_selection_bias(Family& family, bool required = false);
/// Experts stand in groups, of which the best take part.
void add_expert_groups(Family& family);
/// A bias on the router and on the three matrices of every expert.
void add_expert_biases(Family& family);
/// Shared experts, as one feed-forward. The file states how many of an expert's width they are, or their
/// width together; the shape of the tensor decides.
enum class SharedSize { kCount, kWidth };
void add_shared_experts(Family& family, SharedSize stated);
/// Their output is multiplied with the sigmoid of a gate.
void add_shared_gate(Family& family);
/// The first layers have no experts; the file says how many.
void add_leading_dense_layers(Family& family);
/// Layers at the end that predict further tokens; they are not computed.
void add_prediction_layers(Family& family);

}  // namespace soli
