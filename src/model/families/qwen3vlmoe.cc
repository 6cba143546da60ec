// Qwen3-VL-MoE, the part that reads text: positions of text are the same in all sections of its RoPE, which
// leaves Qwen3-MoE.

#include "model/family_parts.h"

namespace soli {

Family qwen3vlmoe_family() {
  Family family = decoder_family("qwen3vlmoe");
  add_qk_norm(family, QkNorm::kPerHead);
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = true});
  return family;
}

}  // namespace soli
