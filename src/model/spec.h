#pragma once

// What a model is, as data: the axes along which families differ. forward.cc and router.cc switch on axes and
// never on a family's name.

#include <cstdint>
#include <string>

#include "ops/elementwise.h"
#include "ops/rope.h"

namespace soli {

/// How router logits become scores and routing weights.
enum class Gating {
  kSoftmax,        // softmax over all experts, then the best k
  kSoftmaxChosen,  // the best k by logit, then softmax over those k
  kSigmoid,        // a sigmoid per expert, then the best k
};

/// How positions reach beyond the context that a model was trained with at first.
enum class PositionScaling {
  kLinear,    // all of them divided by a factor; 1: not at all
  kYarn,      // see RopeScaling
  kLongRope,  // factors of each pair, one set for short and one for long contexts (Ding et al. 2024)
};

/// The rule by which a token's experts are chosen and weighed.
struct RouterSpec {
  int64_t n_experts = 0;          // 0: a dense model
  int64_t experts_per_token = 0;  // k
  Gating gating = Gating::kSoftmax;
  bool renormalise = false;   // weights of the chosen sum to 1
  double weight_scale = 1;    // factor on the weights, after renormalisation
  int64_t n_groups = 1;       // experts stand in groups of n_experts / n_groups
  int64_t n_groups_used = 1;  // only the best groups, by the sum of their two best scores, take part

  /// Experts that a token can choose among: those of the groups that take part.
  int64_t n_reachable() const { return n_experts / n_groups * n_groups_used; }
  bool operator==(const RouterSpec&) const = default;
};

struct ModelSpec {
  std::string architecture;  // GGUF's general.architecture: the family's name
  std::string name;          // general.name, may be empty

  int64_t n_layers = 0;
  int64_t n_prediction_layers = 0;  // that follow in the file and predict further tokens; not computed
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;      // rows of the embedding
  int64_t context_length = 0;  // positions that the model was trained for

  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;          // of queries and keys, as they are kept and multiplied
  int64_t value_dim = 0;         // of values, the same
  double attention_scale = 0;    // on q . k; 0: 1 / sqrt(dimension of a head's query)
  bool norm_after_rope = false;  // of queries and keys, where they are normalised
  int64_t sliding_window = 0;    // positions that a query of a window layer sees; 0: none has a window
  int64_t window_period = 1;     // the last layer of so many sees everything, the others have the window
  double norm_epsilon = 0;

  // Latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1): keys and values of all heads come from
  // one vector per position. What is kept is that vector, normalised, and the rotated key that all heads
  // share: head_dim = latent_rank + rope_dims, value_dim = latent_rank, one kv head.
  int64_t latent_rank = 0;        // 0: keys and values of each kv head
  int64_t latent_query_rank = 0;  // 0: queries come from the hidden state at once
  int64_t latent_key_dim = 0;     // of a head's key before it is folded into the query, rotated part included
  int64_t latent_value_dim = 0;   // of a head's value

  RopePairing rope_pairing = RopePairing::kHalves;
  int64_t rope_dims = 0;  // elements of a head that rotate: the first ones, or the last with latent attention
  double rope_base = 10000;
  PositionScaling position_scaling = PositionScaling::kLinear;
  double rope_scale = 1;              // the factor of it
  int64_t rope_original_context = 0;  // positions before scaling; 0: context_length
  double rope_magnitude = 1;          // factor on cosine and sine
  double yarn_beta_fast = 32;
  double yarn_beta_slow = 1;
  double yarn_log_multiplier = 0;  // 0: YaRN scales cosine and sine; else the scale of attention, by this

  int64_t ffn_width = 0;            // of dense layers
  int64_t expert_width = 0;         // of routed experts; the tensor's shape decides
  int64_t shared_expert_width = 0;  // of all shared experts together; 0: none
  int64_t n_shared_experts = 0;     // that the width stands for, where the file says so
  int64_t n_leading_dense_layers = 0;
  int64_t moe_layer_step = 1;  // beyond the dense ones, every so many-th layer has experts
  Activation activation = Activation::kSwiGlu;
  RouterSpec router;

  double embedding_scale = 1;  // factor on embeddings
  double residual_scale = 1;   // factor on what a sub-layer adds to the residual stream
  double logit_scale = 1;      // divisor of the logits

  bool is_moe() const { return router.n_experts > 0; }
  bool is_moe_layer(int64_t layer) const {
    return is_moe() && layer >= n_leading_dense_layers && (layer + 1) % moe_layer_step == 0;
  }
  int64_t n_moe_layers() const {
    return is_moe() ? n_layers / moe_layer_step - n_leading_dense_layers / moe_layer_step : 0;
  }
  bool is_latent() const { return latent_rank > 0; }
  int64_t n_window_layers() const;
  bool has_window(int64_t layer) const {
    return sliding_window > 0 && layer % window_period < window_period - 1;
  }
  /// Dimension of a head's query, and value, as projections give them.
  int64_t projected_key_dim() const { return is_latent() ? latent_key_dim : head_dim; }
  int64_t projected_value_dim() const { return is_latent() ? latent_value_dim : value_dim; }
  /// The factor on q . k.
  double effective_attention_scale() const;
  /// Keys that `n_rows` queries of a sequence, the last of them at `position`, see together: summed over
  /// layers.
  int64_t keys_seen(int64_t position, int64_t n_rows = 1) const;
  bool operator==(const ModelSpec&) const = default;
};

}  // namespace soli
