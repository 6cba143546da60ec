// dots.llm1 (rednote-hilab 2025): Qwen3's attention with DeepSeek-V3's experts, ungrouped.

#include "model/family_parts.h"

namespace soli {

Family dots1_family() {
  Family family = decoder_family("dots1");
  add_qk_norm(family, QkNorm::kPerHead);
  add_leading_dense_layers(family);
  add_experts(family, {.gating = Gating::kSigmoid, .renormalise = false});
  add_router_keys(family);
  add_selection_bias(family);
  add_shared_experts(family, SharedSize::kCount);
  return family;
}

}  // namespace soli
