#include "model/family.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

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

LinearSlot projection(Linear LayerWeights::*member, const std::string& name, Dim rows,
                      std::vector<Dim> fused_before) {
  LinearSlot slot = matrix(member, "blk.{}." + name + ".weight", rows, Dim::kHidden, Part::kAttention);
  slot.bias_pattern = "blk.{}." + name + ".bias";
  slot.fused_pattern = "blk.{}.attn_qkv.weight";
  slot.fused_before = std::move(fused_before);
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
  LinearSlot o =
      matrix(&LayerWeights::o, "blk.{}.attn_output.weight", Dim::kHidden, Dim::kMixedRow, Part::kAttention);
  o.bias_pattern = "blk.{}.attn_output.bias";
  const auto ffn = [](Linear LayerWeights::*member, const char* pattern, Dim rows, Dim cols) {
    return matrix(member, pattern, rows, cols, Part::kDenseFfn, Layers::kDense);
  };
  return {
      embedding,
      head,
      projection(&LayerWeights::q, "attn_q", Dim::kQueryRow, {}),
      projection(&LayerWeights::k, "attn_k", Dim::kKeyRow, {Dim::kQueryRow}),
      projection(&LayerWeights::v, "attn_v", Dim::kValueRow, {Dim::kQueryRow, Dim::kKeyRow}),
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

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {llama_family(),    qwen2_family(),    qwen3_family(),
                                               qwen2moe_family(), qwen3moe_family(), olmoe_family()};
  return families;
}

}  // namespace

int64_t size_of(const ModelSpec& spec, Dim dim) {
  switch (dim) {
    case Dim::kHidden:
      return spec.hidden_size;
    case Dim::kVocab:
      return spec.vocab_size;
    case Dim::kQueryRow:
      return spec.n_heads * spec.head_dim;
    case Dim::kKeyRow:
      return spec.n_kv_heads * spec.head_dim;
    case Dim::kValueRow:
      return spec.n_kv_heads * spec.value_dim;
    case Dim::kMixedRow:
      return spec.n_heads * spec.value_dim;
    case Dim::kHeadDim:
      return spec.head_dim;
    case Dim::kRopePairs:
      return spec.rope_dims / 2;
    case Dim::kFfnWidth:
      return spec.ffn_width;
    case Dim::kExperts:
      return spec.router.n_experts;
    case Dim::kExpertWidth:
      return spec.expert_width;
    case Dim::kSharedWidth:
      return spec.shared_expert_width;
    case Dim::kOne:
      return 1;
  }
  SOLI_CHECK(false, "unknown dimension");
}

std::string_view name_of(Part part) {
  constexpr std::array<std::string_view, kParts> kNames = {"embedding",      "attention",  "norms",
                                                           "dense ffn",      "router",     "shared experts",
                                                           "routed experts", "output head"};
  return kNames[static_cast<size_t>(part)];
}

bool has_layer(const ModelSpec& spec, Layers layers, int64_t layer) {
  return layers == Layers::kAll || (layers == Layers::kMoe) == spec.is_moe_layer(layer);
}

const Family* find_family(std::string_view architecture) {
  const auto& families = all_families();
  const auto found = std::find_if(families.begin(), families.end(), [&](const Family& family) {
    return family.defaults.architecture == architecture;
  });
  return found == families.end() ? nullptr : &*found;
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const Family& family : all_families()) names.push_back(family.defaults.architecture);
  return names;
}

Family decoder_family(std::string architecture) {
  Family family;
  family.defaults.architecture = std::move(architecture);
  family.keys = decoder_keys();
  family.linears = decoder_linears();
  family.vectors = decoder_vectors();
  return family;
}

void add_experts(Family& family, RouterSpec router) {
  family.defaults.router = router;
  // Absent: the file is dense, whatever its family's name says.
  family.keys.push_back({"expert_count", &RouterSpec::n_experts, false});
  family.keys.push_back({"expert_used_count", &RouterSpec::experts_per_token, false});
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

void add_gated_shared_expert(Family& family) {
  family.keys.push_back({"expert_shared_feed_forward_length", &ModelSpec::shared_expert_width, false});
  const auto add = [&](Linear LayerWeights::*member, const char* pattern, Dim rows, Dim cols, Part part) {
    family.linears.push_back(matrix(member, pattern, rows, cols, part, Layers::kMoe));
  };
  add(&LayerWeights::shared_router, "blk.{}.ffn_gate_inp_shexp.weight", Dim::kOne, Dim::kHidden,
      Part::kRouter);
  add(&LayerWeights::shared_gate, "blk.{}.ffn_gate_shexp.weight", Dim::kSharedWidth, Dim::kHidden,
      Part::kSharedExperts);
  add(&LayerWeights::shared_up, "blk.{}.ffn_up_shexp.weight", Dim::kSharedWidth, Dim::kHidden,
      Part::kSharedExperts);
  add(&LayerWeights::shared_down, "blk.{}.ffn_down_shexp.weight", Dim::kHidden, Dim::kSharedWidth,
      Part::kSharedExperts);
}

void add_qk_norm(Family& family, QkNorm qk_norm) {
  family.defaults.qk_norm = qk_norm;
  const bool per_head = qk_norm == QkNorm::kPerHead;
  family.vectors.push_back({&LayerWeights::q_norm, "blk.{}.attn_q_norm.weight",
                            per_head ? Dim::kHeadDim : Dim::kQueryRow, Part::kNorms});
  family.vectors.push_back({&LayerWeights::k_norm, "blk.{}.attn_k_norm.weight",
                            per_head ? Dim::kHeadDim : Dim::kKeyRow, Part::kNorms});
}

void require_qkv_bias(Family& family) {
  for (LinearSlot& slot : family.linears) {
    const auto* member = std::get_if<Linear LayerWeights::*>(&slot.member);
    if (member == nullptr) continue;
    slot.bias_required |=
        *member == &LayerWeights::q || *member == &LayerWeights::k || *member == &LayerWeights::v;
  }
}

}  // namespace soli
