// Ling 2.0 and Ring 2.0 (inclusionAI 2025): a sigmoid per expert, in groups.

#include "model/family_parts.h"

namespace soli {

Family bailingmoe2_family() {
  Family family = decoder_family("bailingmoe2");
  add_qk_norm(family, QkNorm::kPerHead);
  add_leading_dense_layers(family);
  add_experts(family, {.gating = Gating::kSigmoid, .renormalise = false});
  add_router_keys(family);
  add_expert_groups(family);
  add_selection_bias(family);
  add_shared_experts(family, SharedSize::kCount);
  add_prediction_layers(family);
  return family;
}

}  // namespace soli
