#include "model/family_parts.h"

#include <utility>

namespace soli {
namespace {

std::vector<KeySlot> decoder_keys() {
  return {
      {"block_count", &ModelSpec::n_layers},
      {"embedding_length", &ModelSpec::hidden_size},
      {"context_length", &ModelSpec::context_length},
      {"attention.head_count", &ModelSpec::n_heads},
      {"attention.layer_norm_rms_epsilon", &ModelSpec::norm_epsilon},
      // Absent: as many as query heads (GGUF specification, attention.head_count_kv).
      {"attention.head_count_kv", &ModelSpec::n_kv_heads, false},
      // Absent: hidden_size / n_heads (GGUF specification, attention.key_length).
      {"attention.key_length", &ModelSpec::head_dim, false},
      {"attention.value_length", &ModelSpec::value_dim, false},
      {"feed_forward_length", &ModelSpec::ffn_width, false},
      // Absent: the whole head rotates.
      {"rope.dimension_count", &ModelSpec::rope_dims, false},
      {"rope.freq_base", &ModelSpec::rope_base, false},
      {"rope.scaling.factor", &ModelSpec::rope_scale, false},
      {"rope.scaling.original_context_length", &ModelSpec::rope_original_context, false},
      {"rope.scaling.attn_factor", &ModelSpec::rope_magnitude, false},
  };
}

LinearSlot matrix(Linear LayerWeights::*member, std::string pattern, Dim rows, Dim cols, Part part,
                  Layers layers = Layers::kAll) {
  return {.member = member,
          .pattern = std::move(pattern),
          .rows = rows,
          .cols = cols,
          .part = part,
          .layers = layers};
}

LinearSlot projection(Linear LayerWeights::*member, const std::string& name, Dim rows, size_t part) {
  LinearSlot slot = matrix(member, "blk.{}." + name + ".weight", rows, Dim::kHidden, Part::kAttention);
  slot.bias_pattern = "blk.{}." + name + ".bias";
  slot.fused = {.pattern = "blk.{}.attn_qkv.weight",
                .bias_pattern = "blk.{}.attn_qkv.bias",
                .parts = {Dim::kQueryRow, Dim::kKeyRow, Dim::kValueRow},
                .part = part};
  return slot;
}

std::vector<LinearSlot> decoder_linears() {
  LinearSlot embedding = {.member = &GlobalWeights::token_embedding,
                          .pattern = "token_embd.weight",
                          .rows = Dim::kVocab,
                          .cols = Dim::kHidden,
                          .part = Part::kEmbedding};
  LinearSlot head = embedding;
  head.member = &GlobalWeights::output;
  head.pattern = "output.weight";
  head.part = Part::kOutputHead;
  head.required = false;  // absent: tied to the embedding
  head.bias_pattern = "output.bias";
  LinearSlot o =
      matrix(&LayerWeights::o, "blk.{}.attn_output.weight", Dim::kHidden, Dim::kMixedRow, Part::kAttention);
  o.bias_pattern = "blk.{}.attn_output.bias";
  const auto ffn = [](Linear LayerWeights::*member, const char* pattern, Dim rows, Dim cols) {
    return matrix(member, pattern, rows, cols, Part::kDenseFfn, Layers::kDense);
  };
  return {
      embedding,
      head,
      projection(&LayerWeights::q, "attn_q", Dim::kQueryRow, 0),
      projection(&LayerWeights::k, "attn_k", Dim::kKeyRow, 1),
      projection(&LayerWeights::v, "attn_v", Dim::kValueRow, 2),
      o,
      ffn(&LayerWeights::ffn_gate, "blk.{}.ffn_gate.weight", Dim::kFfnWidth, Dim::kHidden),
      ffn(&LayerWeights::ffn_up, "blk.{}.ffn_up.weight", Dim::kFfnWidth, Dim::kHidden),
      ffn(&LayerWeights::ffn_down, "blk.{}.ffn_down.weight", Dim::kHidden, Dim::kFfnWidth),
  };
}

std::vector<VectorSlot> decoder_vectors() {
  return {
      {&GlobalWeights::output_norm, "output_norm.weight", Dim::kHidden, Part::kNorms},
      {&GlobalWeights::rope_frequencies, "rope_freqs.weight", Dim::kRopePairs, Part::kAttention, Layers::kAll,
       false},
      {&LayerWeights::attention_norm, "blk.{}.attn_norm.weight", Dim::kHidden, Part::kNorms},
      {&LayerWeights::ffn_norm, "blk.{}.ffn_norm.weight", Dim::kHidden, Part::kNorms},
  };
}

void add_key(Family& family, KeySlot key) { family.keys.push_back(std::move(key)); }

void add_vector(Family& family, std::span<const float> LayerWeights::*member, std::string pattern, Dim size,
                Part part, Layers layers = Layers::kAll, bool required = true) {
  family.vectors.push_back({member, std::move(pattern), size, part, layers, required});
}

LinearSlot* find_slot(Family& family, Linear LayerWeights::*member) {
  for (LinearSlot& slot : family.linears) {
    const auto* of_layer = std::get_if<Linear LayerWeights::*>(&slot.member);
    if (of_layer != nullptr && *of_layer == member) return &slot;
  }
  return nullptr;
}

LinearSlot per_head(std::vector<Linear> LayerWeights::*member, std::string pattern, Dim rows, Dim cols,
                    FusedPlace fused) {
  return {.member = member,
          .pattern = std::move(pattern),
          .rows = rows,
          .cols = cols,
          .part = Part::kAttention,
          .fused = std::move(fused)};
}

}  // namespace

Family decoder_family(std::string architecture) {
  Family family;
  family.defaults.architecture = std::move(architecture);
  family.keys = decoder_keys();
  family.linears = decoder_linears();
  family.vectors = decoder_vectors();
  return family;
}

void require_qkv_bias(Family& family) {
  for (Linear LayerWeights::*member : {&LayerWeights::q, &LayerWeights::k, &LayerWeights::v})
    find_slot(family, member)->bias_required = true;
}

void require_attention_output_bias(Family& family) {
  find_slot(family, &LayerWeights::o)->bias_required = true;
}

void add_qk_norm(Family& family, QkNorm over, bool required) {
  const bool per_head = over == QkNorm::kPerHead;
  add_vector(family, &LayerWeights::q_norm, "blk.{}.attn_q_norm.weight",
             per_head ? Dim::kHeadDim : Dim::kQueryRow, Part::kNorms, Layers::kAll, required);
  add_vector(family, &LayerWeights::k_norm, "blk.{}.attn_k_norm.weight",
             per_head ? Dim::kHeadDim : Dim::kKeyRow, Part::kNorms, Layers::kAll, required);
}

void use_latent_attention(Family& family) {
  add_key(family, {"attention.kv_lora_rank", &ModelSpec::latent_rank});
  // Absent or 0: queries come from the hidden state at once.
  add_key(family, {"attention.q_lora_rank", &ModelSpec::latent_query_rank, false});
  // Absent in the older layout: attention.key_length and value_length are those of a head then.
  add_key(family, {"attention.key_length_mla", &ModelSpec::latent_key_dim, false});
  add_key(family, {"attention.value_length_mla", &ModelSpec::latent_value_dim, false});
  std::erase_if(family.linears, [](const LinearSlot& slot) {
    const auto* member = std::get_if<Linear LayerWeights::*>(&slot.member);
    return member != nullptr && (*member == &LayerWeights::k || *member == &LayerWeights::v);
  });
  LinearSlot& q = *find_slot(family, &LayerWeights::q);
  q.rows = Dim::kDirectQuery;
  q.fused = {};
  const auto add = [&](Linear LayerWeights::*member, const char* pattern, Dim rows, Dim cols) {
    family.linears.push_back(matrix(member, pattern, rows, cols, Part::kAttention));
  };
  add(&LayerWeights::query_down, "blk.{}.attn_q_a.weight", Dim::kQueryLatent, Dim::kHidden);
  add(&LayerWeights::query_up, "blk.{}.attn_q_b.weight", Dim::kQueryRow, Dim::kQueryLatent);
  add(&LayerWeights::latent_down, "blk.{}.attn_kv_a_mqa.weight", Dim::kLatentAndRope, Dim::kHidden);
  FusedPlace older = {
      .pattern = "blk.{}.attn_kv_b.weight", .parts = {Dim::kUnrotatedKey, Dim::kLatentValue}, .part = 1};
  family.linears.push_back(
      per_head(&LayerWeights::value_up, "blk.{}.attn_v_b.weight", Dim::kLatentValue, Dim::kLatent, older));
  older.part = 0;
  older.transposed = true;
  family.linears.push_back(
      per_head(&LayerWeights::key_up, "blk.{}.attn_k_b.weight", Dim::kLatent, Dim::kUnrotatedKey, older));
  // Some files hold both layouts.
  family.ignored.push_back("blk.{}.attn_kv_b.weight");
  add_vector(family, &LayerWeights::query_latent_norm, "blk.{}.attn_q_a_norm.weight", Dim::kQueryLatent,
             Part::kNorms);
  add_vector(family, &LayerWeights::latent_norm, "blk.{}.attn_kv_a_norm.weight", Dim::kLatent, Part::kNorms);
}

void add_sliding_window(Family& family, int64_t period) {
  family.defaults.window_period = period;
  add_key(family, {"attention.sliding_window", &ModelSpec::sliding_window});
}

void add_sinks(Family& family) {
  add_vector(family, &LayerWeights::sinks, "blk.{}.attn_sinks.weight", Dim::kHeads, Part::kAttention);
}

void add_norm_and_head_biases(Family& family) {
  for (LinearSlot& slot : family.linears) slot.bias_required |= slot.part == Part::kOutputHead;
  add_vector(family, &LayerWeights::attention_norm_bias, "blk.{}.attn_norm.bias", Dim::kHidden, Part::kNorms);
  add_vector(family, &LayerWeights::ffn_norm_bias, "blk.{}.ffn_norm.bias", Dim::kHidden, Part::kNorms);
  family.vectors.push_back(
      {&GlobalWeights::output_norm_bias, "output_norm.bias", Dim::kHidden, Part::kNorms});
}

void rename_ffn_norm(Family& family, std::string pattern) {
  for (VectorSlot& slot : family.vectors) {
    const auto* member = std::get_if<std::span<const float> LayerWeights::*>(&slot.member);
    if (member != nullptr && *member == &LayerWeights::ffn_norm) slot.pattern = std::move(pattern);
  }
}

void add_yarn(Family& family) {
  add_key(family, {"rope.scaling.yarn_beta_fast", &ModelSpec::yarn_beta_fast, false});
  add_key(family, {"rope.scaling.yarn_beta_slow", &ModelSpec::yarn_beta_slow, false});
}

void add_experts(Family& family, RouterSpec router) {
  family.defaults.router = router;
  // Absent: the file is dense, whatever its family's name says.
  add_key(family, {"expert_count", &RouterSpec::n_experts, false});
  add_key(family, {"expert_used_count", &RouterSpec::experts_per_token, false});
  family.linears.push_back(matrix(&LayerWeights::router, "blk.{}.ffn_gate_inp.weight", Dim::kExperts,
                                  Dim::kHidden, Part::kRouter, Layers::kMoe));
  family.experts = {
      {ExpertMatrix::kGate, "blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_gate.{}.weight", Dim::kExpertWidth,
       Dim::kHidden},
      {ExpertMatrix::kUp, "blk.{}.ffn_up_exps.weight", "blk.{}.ffn_up.{}.weight", Dim::kExpertWidth,
       Dim::kHidden},
      {ExpertMatrix::kDown, "blk.{}.ffn_down_exps.weight", "blk.{}.ffn_down.{}.weight", Dim::kHidden,
       Dim::kExpertWidth},
  };
}

void add_router_keys(Family& family) {
  add_key(family, {"expert_gating_func", &RouterSpec::gating, false});
  add_key(family, {"expert_weights_norm", &RouterSpec::renormalise, false});
  add_key(family, {"expert_weights_scale", &RouterSpec::weight_scale, false});
}

void add_selection_bias(Family& family, bool required) {
  add_vector(family, &LayerWeights::selection_bias, "blk.{}.exp_probs_b.bias", Dim::kExperts, Part::kRouter,
             Layers::kMoe, required);
}

void add_expert_groups(Family& family) {
  add_key(family, {"expert_group_count", &RouterSpec::n_groups, false});
  add_key(family, {"expert_group_used_count", &RouterSpec::n_groups_used, false});
}

void add_expert_biases(Family& family) {
  LinearSlot& router = *find_slot(family, &LayerWeights::router);
  router.bias_pattern = "blk.{}.ffn_gate_inp.bias";
  router.bias_required = true;
  for (ExpertSlot& slot : family.experts) {
    slot.bias_pattern = slot.merged_pattern;
    slot.bias_pattern.replace(slot.bias_pattern.rfind("weight"), std::string::npos, "bias");
  }
}

void add_shared_experts(Family& family, SharedSize stated) {
  if (stated == SharedSize::kCount) {
    add_key(family, {"expert_shared_count", &ModelSpec::n_shared_experts, false});
  } else {
    add_key(family, {"expert_shared_feed_forward_length", &ModelSpec::shared_expert_width, false});
  }
  const auto add = [&](Linear LayerWeights::*member, const char* pattern, Dim rows, Dim cols) {
    family.linears.push_back(matrix(member, pattern, rows, cols, Part::kSharedExperts, Layers::kMoe));
  };
  add(&LayerWeights::shared_gate, "blk.{}.ffn_gate_shexp.weight", Dim::kSharedWidth, Dim::kHidden);
  add(&LayerWeights::shared_up, "blk.{}.ffn_up_shexp.weight", Dim::kSharedWidth, Dim::kHidden);
  add(&LayerWeights::shared_down, "blk.{}.ffn_down_shexp.weight", Dim::kHidden, Dim::kSharedWidth);
}

void add_shared_gate(Family& family) {
  family.linears.push_back(matrix(&LayerWeights::shared_router, "blk.{}.ffn_gate_inp_shexp.weight", Dim::kOne,
                                  Dim::kHidden, Part::kRouter, Layers::kMoe));
}

void add_leading_dense_layers(Family& family) {
  add_key(family, {"leading_dense_block_count", &ModelSpec::n_leading_dense_layers, false});
}

void add_prediction_layers(Family& family) {
  add_key(family, {"nextn_predict_layers", &ModelSpec::n_prediction_layers, false});
}

}  // namespace soli
