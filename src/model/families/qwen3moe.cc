// Qwen3-MoE: Qwen3 with routed experts, their weights renormalised.

#include "model/family_parts.h"

namespace soli {

Family qwen3moe_family() {
  Family family = decoder_family("qwen3moe");
  add_qk_norm(family, QkNorm::kPerHead);
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = true});
  return family;
}

}  // namespace soli
