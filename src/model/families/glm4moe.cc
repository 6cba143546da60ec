// GLM-4.5 and GLM-4.5-Air (Zhipu AI 2025): a part of the head rotates; a sigmoid per expert, as DeepSeek-V3
// has it, without groups.

#include "model/family_parts.h"

namespace soli {

Family glm4moe_family() {
  Family family = decoder_family("glm4moe");
  add_qk_norm(family, QkNorm::kPerHead, /*required=*/false);
  rename_ffn_norm(family, "blk.{}.post_attention_norm.weight");
  add_leading_dense_layers(family);
  add_experts(family, {.gating = Gating::kSigmoid, .renormalise = false});
  add_router_keys(family);
  add_selection_bias(family);
  add_shared_experts(family, SharedSize::kCount);
  add_prediction_layers(family);
  return family;
}

}  // namespace soli
