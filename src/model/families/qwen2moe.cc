// Qwen1.5-MoE and Qwen2-MoE: routed experts without renormalisation, and one shared expert behind a gate.

#include "model/family.h"

namespace soli {

Family qwen2moe_family() {
  Family family = decoder_family("qwen2moe");
  require_qkv_bias(family);
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = false});
  add_gated_shared_expert(family);
  return family;
}

}  // namespace soli
