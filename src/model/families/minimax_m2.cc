// MiniMax-M2 (2025): a part of the head rotates; a sigmoid per expert, with a bias that only chooses.

#include "model/family_parts.h"

namespace soli {

Family minimax_m2_family() {
  Family family = decoder_family("minimax-m2");
  add_qk_norm(family, QkNorm::kWholeRow);
  add_experts(family, {.gating = Gating::kSigmoid, .renormalise = true});
  family.keys.push_back({"expert_gating_func", &RouterSpec::gating, false});
  add_selection_bias(family, /*required=*/true);
  return family;
}

}  // namespace soli
