// Granite 3 MoE (IBM 2024): factors on embeddings, attention, the residual stream and logits.

#include "model/family_parts.h"

namespace soli {

Family granitemoe_family() {
  Family family = decoder_family("granitemoe");
  family.defaults.rope_pairing = RopePairing::kAdjacent;
  family.keys.push_back({"embedding_scale", &ModelSpec::embedding_scale, false});
  family.keys.push_back({"attention.scale", &ModelSpec::attention_scale, false});
  family.keys.push_back({"residual_scale", &ModelSpec::residual_scale, false});
  family.keys.push_back({"logit_scale", &ModelSpec::logit_scale});
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = true});
  add_shared_experts(family, SharedSize::kWidth);
  return family;
}

}  // namespace soli
