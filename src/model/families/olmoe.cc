// OLMoE: Muennighoff et al. 2024. Queries and keys are normalised over the whole projected row.

#include "model/family_parts.h"

namespace soli {

Family olmoe_family() {
  Family family = decoder_family("olmoe");
  add_qk_norm(family, QkNorm::kWholeRow);
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = false});
  return family;
}

}  // namespace soli
