// Hunyuan-A13B (Tencent 2025): queries and keys are normalised after they have been rotated.

#include "model/family_parts.h"

namespace soli {

Family hunyuan_moe_family() {
  Family family = decoder_family("hunyuan-moe");
  family.defaults.norm_after_rope = true;
  add_qk_norm(family, QkNorm::kPerHead);
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = true});
  add_shared_experts(family, SharedSize::kWidth);
  return family;
}

}  // namespace soli
