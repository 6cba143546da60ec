// Llama and Mistral (dense), Mixtral (with experts): Jiang et al. 2024, "Mixtral of Experts".

#include "model/family_parts.h"

namespace soli {

Family llama_family() {
  Family family = decoder_family("llama");
  family.defaults.rope_pairing = RopePairing::kAdjacent;
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = true});
  return family;
}

}  // namespace soli
