#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/spec.h"

namespace soli {

/// Sizes of a model; 0 where it has no such thing, or it follows from the others.
struct Shape {
  std::string_view name;
  std::string_view family;
  int64_t n_layers;
  int64_t hidden_size;
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t ffn_width;
  int64_t vocab_size;
  int64_t context_length;
  double rope_base;
  double norm_epsilon;
  bool tied_output = false;
  int64_t n_experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
  int64_t shared_expert_width = 0;
  int64_t n_leading_dense = 0;
  int64_t n_groups = 1;
  int64_t n_groups_used = 1;
  int64_t rope_dims = 0;  // 0: the whole head
  int64_t latent_rank = 0;
  int64_t latent_query_rank = 0;
  int64_t latent_key_dim = 0;
  int64_t latent_value_dim = 0;
  int64_t latent_rope_dims = 0;
  int64_t sliding_window = 0;
  RouterSpec routing = {};  // gating, renormalisation and scale, where files of the family state them
};

/// "tiny", which has some of everything, and published models as their files on Hugging Face state them.
std::span<const Shape> published_shapes();
const Shape& tiny_shape();

}  // namespace soli
