// ERNIE 4.5 (Baidu 2025): every so many-th layer has experts; a bias chooses among softmax scores.

#include "model/family_parts.h"

namespace soli {

Family ernie4_5_moe_family() {
  Family family = decoder_family("ernie4_5-moe");
  family.defaults.rope_pairing = RopePairing::kAdjacent;
  add_leading_dense_layers(family);
  family.keys.push_back({"interleave_moe_layer_step", &ModelSpec::moe_layer_step});
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = true});
  add_selection_bias(family);
  add_shared_experts(family, SharedSize::kWidth);
  return family;
}

}  // namespace soli
