// DeepSeek-V2, V2-Lite, V3, R1 (DeepSeek-AI 2024) and Kimi K2: latent attention, shared experts, from V3 on a
// sigmoid per expert with a bias that only chooses.

#include "model/family_parts.h"

namespace soli {

Family deepseek2_family() {
  Family family = decoder_family("deepseek2");
  family.defaults.rope_pairing = RopePairing::kAdjacent;
  use_latent_attention(family);
  add_yarn(family);
  family.keys.push_back({"rope.scaling.yarn_log_multiplier", &ModelSpec::yarn_log_multiplier, false});
  add_leading_dense_layers(family);
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = false});
  add_router_keys(family);
  add_expert_groups(family);
  add_selection_bias(family);
  add_shared_experts(family, SharedSize::kCount);
  add_prediction_layers(family);
  return family;
}

}  // namespace soli
