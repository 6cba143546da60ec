// Qwen1.5-MoE and Qwen2-MoE: routed experts without renormalisation, and one shared expert behind a gate.

#include "model/family_parts.h"

namespace soli {

Family qwen2moe_family() {
  Family family = decoder_family("qwen2moe");
  require_qkv_bias(family);
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = false});
  add_shared_experts(family, SharedSize::kWidth);
  add_shared_gate(family);
  return family;
}

}  // namespace soli
