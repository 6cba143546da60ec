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

/// Where queries and keys are normalised before RoPE.
enum class QkNorm {
  kNone,
  kPerHead,   // each head by itself; weight [head_dim]
  kWholeRow,  // the whole projected row; weight [heads * head_dim]
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

  bool operator==(const RouterSpec&) const = default;
};

struct ModelSpec {
  std::string architecture;  // GGUF's general.architecture: the family's name
  std::string name;          // general.name, may be empty

  int64_t n_layers = 0;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;      // rows of the embedding
  int64_t context_length = 0;  // positions that the model was trained for

  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;   // of queries and keys
  int64_t value_dim = 0;  // of values
  QkNorm qk_norm = QkNorm::kNone;
  double norm_epsilon = 0;

  RopePairing rope_pairing = RopePairing::kHalves;
  int64_t rope_dims = 0;  // leading elements of a head that rotate
  double rope_base = 10000;
  double rope_scale = 1;  // positions are divided by it

  int64_t ffn_width = 0;            // of dense layers
  int64_t expert_width = 0;         // of routed experts; the tensor's shape decides
  int64_t shared_expert_width = 0;  // 0: none
  int64_t n_leading_dense_layers = 0;
  Activation activation = Activation::kSwiGlu;
  RouterSpec router;

  bool is_moe() const { return router.n_experts > 0; }
  bool is_moe_layer(int64_t layer) const { return is_moe() && layer >= n_leading_dense_layers; }
  int64_t n_moe_layers() const { return is_moe() ? n_layers - n_leading_dense_layers : 0; }
  bool operator==(const ModelSpec&) const = default;
};

}  // namespace soli
